package io.tailrace.delta;

import io.delta.storage.S3SingleDriverLogStore;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Delta's log store of S3, with commit files that the store itself creates only if they are absent.
 *
 * Delta's own asks whether the file exists, then writes it, under a lock of its JVM. Two drivers can
 * both find it absent, and the later write replaces the earlier commit. Here the request carries
 * If-None-Match, so the store decides.
 *
 * Janino compiles this file: no generics' casts, lambdas or method references.
 */
public class ConditionalLogStore extends S3SingleDriverLogStore {
  private static final int ATTEMPTS = 4;

  public ConditionalLogStore(Configuration hadoopConf) {
    super(hadoopConf);
  }

  public void write(Path path, Iterator actions, Boolean overwrite, Configuration conf)
      throws IOException {
    if (overwrite.booleanValue()) {
      super.write(path, actions, overwrite, conf);
      return;
    }
    ByteArrayOutputStream whole = new ByteArrayOutputStream();
    while (actions.hasNext()) {
      whole.write(((String) actions.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    byte[] bytes = whole.toByteArray();
    FileSystem files = path.getFileSystem(conf);
    IOException last = null;
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        create(files, path, bytes);
        return;
      } catch (IOException error) {
        last = error;
        byte[] there = read(files, path);
        if (there != null && Arrays.equals(there, bytes)) {
          return; // Our own write, whose answer was lost: each commit has an id of its own.
        }
        if (there != null) {
          throw new FileAlreadyExistsException(path.toString()); // Delta's sign of a conflict.
        }
      }
    }
    throw last;
  }

  /** Whether a reader may see half a file; if so, Delta would hold a lock of the JVM in each commit. */
  public Boolean isPartialWriteVisible(Path path, Configuration conf) {
    return Boolean.FALSE;
  }

  /** Creates a file if the store has none of this name; fails if it has. */
  public static void create(FileSystem files, Path path, byte[] bytes) throws IOException {
    FSDataOutputStreamBuilder builder = files.createFile(path);
    builder.create();
    builder.recursive();
    builder.must("fs.option.create.conditional.overwrite", true);
    FSDataOutputStream out = (FSDataOutputStream) builder.build();
    out.write(bytes);
    out.close();
  }

  private static byte[] read(FileSystem files, Path path) throws IOException {
    FSDataInputStream in;
    try {
      in = files.open(path);
    } catch (FileNotFoundException absent) {
      return null;
    }
    try {
      ByteArrayOutputStream found = new ByteArrayOutputStream();
      byte[] part = new byte[8192];
      int length = in.read(part);
      while (length >= 0) {
        found.write(part, 0, length);
        length = in.read(part);
      }
      return found.toByteArray();
    } finally {
      in.close();
    }
  }
}
