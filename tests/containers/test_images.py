"""The images that were built here: what is in them, who runs them, how large they are."""

from __future__ import annotations

import pytest
from testcontainers.core.container import DockerContainer

from tailrace.testing import engine
from tailrace_compose.images.build import IMAGES, SOURCES_LABEL

pytestmark = [pytest.mark.slow("builds and starts images"), pytest.mark.usefixtures("images")]
# Bytes, a quarter above what they are: what makes them larger than that is to be looked at.
SIZE_MAX = {
    "publisher": 330_000_000,
    "emulator": 330_000_000,
    "sink": 1_750_000_000,
    "kafka": 600_000_000,
    "registry": 700_000_000,
}
BUILD_TOOLS = ("pip", "pip3", "gcc", "cc", "make", "git", "javac")


@pytest.fixture(params=sorted(IMAGES))
def image(request, images):
    """An image of ours, as the engine describes it."""
    import docker
    from docker.errors import ImageNotFound

    client = docker.from_env()
    try:
        found = client.images.get(IMAGES[request.param].tag)
    except ImageNotFound:
        pytest.skip(f"{IMAGES[request.param].tag} is not here, and another one is used")
    finally:
        client.close()
    return request.param, found


def test_an_image_says_what_it_is_and_is_nobody_elses(image):
    name, found = image
    config = found.attrs["Config"]
    assert config["User"].split(":")[0] not in ("", "0", "root")
    assert config["Labels"]["org.opencontainers.image.title"] == f"tailrace-{name}"
    assert config["Labels"]["org.opencontainers.image.version"]
    assert config["Labels"]["org.opencontainers.image.description"]
    assert config["Labels"][SOURCES_LABEL]
    assert config["Healthcheck"]["Test"][0] == "CMD"
    settings = "\n".join(config["Env"]).lower()
    assert not [word for word in ("proxy", "cert", "index_url", "password") if word in settings]
    assert found.attrs["Size"] < SIZE_MAX[name]


def test_an_image_holds_no_build_tools_and_no_settings_of_the_build(image):
    _, found = image
    container = DockerContainer(found.tags[0]).with_kwargs(
        network_mode="none", entrypoint=["sleep", "60"], read_only=True
    )
    engine.start(container)
    try:
        asked = f"id -u; for tool in {' '.join(BUILD_TOOLS)}; do command -v $tool; done"
        looked = container.exec(["sh", "-c", f"{asked}; ls /run/secrets /build 2>/dev/null; true"])
        written = container.exec(["sh", "-c", "touch /opt/x || touch $HOME/x"])
    finally:
        container.stop()
    user, *rest = looked.output.decode().splitlines()
    assert user != "0"
    assert rest == []
    assert written.exit_code != 0
