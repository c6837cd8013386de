"""Sets up a fresh clone: virtual environment, locked packages, system packages, jars.

`make setup` runs it with any Python 3 of the machine, before anything is installed. So it uses the
standard library only and no syntax newer than Python 3.7: an old Python gets a message, not a
traceback. Each step is skipped if its result exists. Nothing is written outside the clone and the
cache folder, except Debian packages if root runs it.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO

PYTHON_MIN = (3, 11)
JAVA_MIN = 17
CLONE = Path(__file__).resolve().parents[3]
VENV = CLONE / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "set-up.json"
# A line at least this often shows that it still works.
HEARTBEAT_S = 4.0
# Shared libraries that the ODBC wheels load, and the Debian packages that hold them.
LIBRARIES = {
    "libodbc.so.2": "unixodbc",
    "libltdl.so.7": "libltdl7",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
}
# The tests of the page drive this browser; without it they are skipped, and say so.
BROWSER = {"chromium": "chromium", "chromedriver": "chromium-driver"}
JAVA_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "openjdk-25-jre-headless")


class SetUpError(Exception):
    """A step cannot be done; the message names the fix."""


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Run the steps: all, with `python` what linting needs, with `test` also what tests need."""
    started = time.monotonic()
    try:
        require_python()
        make_venv()
        if arguments != ["python"]:
            system_packages()
        install_packages()
        install_project()
        # The jars take the network, what tests need the processor and apt-get.
        beside = [threading.Thread(target=step) for step in (browser, compile_tests)]
        for thread in beside if arguments == ["test"] else []:
            thread.start()
        if arguments != ["python"]:
            fetch_jars()
        for thread in beside if arguments == ["test"] else []:
            thread.join()
    except SetUpError as error:
        sys.stderr.write(f"\nset-up stopped: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nset-up stopped by Ctrl-C; run it again to continue\n")
        return 130
    seconds = time.monotonic() - started
    if seconds > HEARTBEAT_S:
        say(f"set-up: done in {seconds:.0f} s")
    return 0


def require_python() -> None:
    """Raise SetUpError if the running Python is too old."""
    if sys.version_info[:2] < PYTHON_MIN:
        raise SetUpError(
            f"Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer is needed, {sys.executable} is "
            f"{platform.python_version()}. Install one (Debian: apt-get install python3 "
            "python3-venv) or name it: make PYTHON=python3.12 setup"
        )


def make_venv() -> None:
    """Create `.venv`; create it again if its Python no longer runs."""
    if works([str(VENV_PYTHON), "-c", "import pip"]):
        return
    say(f"set-up: creating .venv with Python {platform.python_version()}")
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        run([sys.executable, "-m", "venv", str(VENV)], "venv")
    except SetUpError as error:
        shutil.rmtree(VENV, ignore_errors=True)
        raise SetUpError(
            f"{sys.executable} cannot create a virtual environment. On Debian and Ubuntu that "
            "needs a package of its own: apt-get install python3-venv"
        ) from error


def system_packages() -> None:
    """Install what no Python package carries, or say what to install."""
    missing = [package for library, package in LIBRARIES.items() if not loads(library)]
    needs_java = java_version() < JAVA_MIN
    if not missing and not needs_java:
        return
    if platform.system() != "Linux" or shutil.which("apt-get") is None:
        raise SetUpError(
            f"missing: {', '.join(missing + ['a Java 17+ runtime'] * needs_java)}. Install them "
            "with your system's package manager, then run this again."
        )
    if os.geteuid() != 0:
        wanted = [*missing, *([JAVA_PACKAGES[0]] if needs_java else [])]
        raise SetUpError(
            "system packages are missing and only root may install them. Run:\n"
            f"  sudo apt-get update && sudo apt-get install --yes {' '.join(wanted)}\n"
            "(any other Java 17+ runtime will do, too), then run this again."
        )
    debian_packages(missing, needs_java=needs_java)


def browser() -> None:
    """Install the browser of the page's tests if possible; else print what to install."""
    missing = [package for program, package in BROWSER.items() if shutil.which(program) is None]
    if not missing:
        return
    wanted = " ".join(missing)
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        say(f"set-up: tests of the page in a browser are skipped; to run them, install {wanted}")
        return
    try:
        debian_packages(missing)
    except SetUpError as error:
        say(f"set-up: tests of the page in a browser are skipped: {error}")


def compile_tests() -> None:
    """Compile the tests, and what they import, by collecting them.

    Each of four workers would compile all of it at the same time: half a minute.
    """
    if (CLONE / "tests" / "unit" / "__pycache__").is_dir():
        return
    say("set-up: compiling the tests")
    environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [str(VENV_PYTHON), "-m", "pytest", "--collect-only", "--quiet", "-n", "0", "tests"]
    # What is wrong with a test is told by the run of the tests.
    subprocess.run(command, capture_output=True, check=False, env=environ, cwd=CLONE)  # noqa: S603


def debian_packages(packages: list[str], *, needs_java: bool = False) -> None:
    """Install Debian packages, and a Java if it is needed; only root may."""
    environ = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    lock_wait = ["-o", "DPkg::Lock::Timeout=120"]
    say("set-up: Debian packages: reading the package lists")
    run(["apt-get", *lock_wait, "update"], "apt-get", environ)
    wanted = [*packages, *([available_java()] if needs_java else [])]
    say(f"set-up: Debian packages: installing {' '.join(wanted)}")
    install = ["apt-get", *lock_wait, "install", "--yes", "--no-install-recommends", *wanted]
    run(install, "apt-get", environ)


def available_java() -> str:
    """Return the first Java package that this release of the distribution has."""
    for package in JAVA_PACKAGES:
        shown = output_of(["apt-cache", "policy", package])
        if re.search(r"Candidate: [^(\s]", shown):
            return package
    raise SetUpError("no Java 17+ package is known to apt-get. Install a Java 17+ runtime.")


def java_version() -> int:
    """Return the major version of JAVA_HOME's java or the one on PATH; 0 without any."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None:
        return 0
    match = re.search(r'version "(\d+)', output_of([java, "-version"]))
    return int(match.group(1)) if match else 0


def loads(library: str) -> bool:
    """Return whether the dynamic linker finds a library; True if libraries are named otherwise."""
    if platform.system() != "Linux":
        return library != "libodbc.so.2" or Path("/opt/homebrew/lib/libodbc.2.dylib").exists()
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def install_packages() -> None:
    """Install requirements.lock with its hashes checked, unless it was installed before."""
    lock = CLONE / "requirements.lock"
    digest = sha256_of(lock)
    if stamps().get("packages") == digest:
        return
    count = len(re.findall(r"^[\w.-]+==", lock.read_text(), re.MULTILINE))
    say(f"set-up: installing {count} locked Python packages")
    # The builder of source archives also comes from the lock. Build isolation would fetch its
    # newest version. The lock is complete, so nothing is left to resolve.
    builder = VENV / "builder.txt"
    builder.write_text(entry_of("setuptools", lock.read_text()))
    # Byte code is written at first import: compiling all of PySpark here would take half a minute.
    flags = ["--require-hashes", "--no-deps", "--no-build-isolation", "--no-compile"]
    pip([*flags, "-r", str(builder)])
    pip([*flags, "-r", str(lock)])
    stamp("packages", digest)


def entry_of(package: str, lock: str) -> str:
    """Return the lines of one package in the text of a lock, with its hashes."""
    match = re.search(rf"^{package}==.*\n(?:[ ]+.*\n)*", lock, re.MULTILINE)
    if match is None:
        raise SetUpError(f"requirements.lock has no entry for {package}")
    return match.group(0)


def install_project() -> None:
    """Install both distributions in place, for the command and the import packages."""
    distributions = [CLONE / "emulator", CLONE]
    said = [folder / "pyproject.toml" for folder in distributions]
    said.append(CLONE / "emulator" / "tailrace_emulator" / "VERSION")
    digest = " ".join(sha256_of(path) for path in said)
    if stamps().get("project") == digest:
        return
    say("set-up: installing tailrace-emulator and tailrace from this clone")
    places = [part for folder in distributions for part in ("--editable", str(folder))]
    pip(["--no-deps", "--no-build-isolation", *places])
    # A build leaves metadata next to the sources, which would report this version for ever.
    for left in [path for folder in distributions for path in folder.glob("*.egg-info")]:
        shutil.rmtree(left)
    stamp("project", digest)


def fetch_jars() -> None:
    """Download the locked jars into the cache, checking each existing file."""
    run([str(VENV_PYTHON), "-m", "tailrace_compose.local.jars", "fetch"], "jars")


def pip(arguments: list[str]) -> None:
    """Run `pip install` with the user's own pip settings; its cache is in our cache folder."""
    environ = dict(os.environ)
    environ.setdefault("PIP_CACHE_DIR", str(cache_folder() / "pip"))
    command = [str(VENV_PYTHON), "-m", "pip", "install", "--no-input", "--progress-bar", "off"]
    run([*command, "--disable-pip-version-check", *arguments], "pip", environ)


def cache_folder() -> Path:
    """Return the folder of downloads, as compose/tailrace_compose/local/cache.py does."""
    configured = os.environ.get("TAILRACE_CACHE")
    if configured:
        return Path(configured).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "tailrace"


def stamps() -> dict[str, str]:
    """Return the digests from which this environment was set up, by step."""
    try:
        return dict(json.loads(STAMP.read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def stamp(step: str, digest: str) -> None:
    """Record that a step is done."""
    STAMP.write_text(json.dumps(dict(stamps(), **{step: digest})))


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def works(command: list[str]) -> bool:
    """Return whether a command can be run and succeeds."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603
    except OSError:
        return False


def output_of(command: list[str]) -> str:
    """Return what a command prints on both streams; empty if it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return done.stdout + done.stderr


def run(command: list[str], name: str, environ: dict[str, str] | None = None) -> None:
    """Run a command, showing its newest line at least every few seconds.

    Raises:
        SetUpError: it failed; the message holds the end of its output.
    """
    started = time.monotonic()
    lines: list[str] = []
    with subprocess.Popen(  # noqa: S603  # the commands are the steps above
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environ,
        cwd=CLONE,
    ) as process:
        stream = process.stdout
        if stream is None:
            raise AssertionError("stdout was requested as a pipe")
        reader = threading.Thread(target=collect, args=(stream, lines), daemon=True)
        reader.start()
        shown = 0
        while reader.is_alive():
            reader.join(HEARTBEAT_S if shown else 1.0)
            if reader.is_alive():
                newest = lines[-1][:110] if lines else "started"
                say(f"  {name} {time.monotonic() - started:4.0f} s  {newest}")
                shown += 1
        process.wait()
    if process.returncode != 0:
        tail = "\n".join(lines[-30:])
        raise SetUpError(f"{' '.join(command)}\nended with status {process.returncode}:\n{tail}")


def collect(stream: IO[str], lines: list[str]) -> None:
    """Append each non-empty line of a stream until it ends."""
    for line in stream:
        if line.strip():
            lines.append(line.strip())  # noqa: PERF401  # is read while it grows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
