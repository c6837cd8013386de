package io.tailrace.tests;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local files, without a process for each mode that is set and each link that is read. */
public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  /** Asks Java for what Hadoop starts chmod and readlink for. */
  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission permission) throws IOException {
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
    }

    /** The tests' folders have no links. */
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      return getFileStatus(path);
    }
  }

  /** The same for Hadoop's other interface, by which Delta commits. */
  public static class RawOfContext extends DelegateToFileSystem {
    public RawOfContext(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(uri, new Raw(), settings, "file", false);
    }

    public int getUriDefaultPort() {
      return -1;
    }

    public boolean isValidName(String name) {
      return true;
    }
  }

  /** As LocalFs: with checksums. */
  public static class OfContext extends ChecksumFs {
    public OfContext(URI uri, Configuration settings) throws IOException, URISyntaxException {
      super(new RawOfContext(uri, settings));
    }
  }
}
