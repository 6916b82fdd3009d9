"""What Spark is told for one machine and for a cluster; Spark itself is not started."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.engine.session import JAVA_OPTIONS, JOURNALS_PORT, SparkSettings, worker_sockets
from anabranch.errors import ConfigError


def test_on_one_machine_everything_stays_on_loopback() -> None:
    found = SparkSettings(master="local[2]", host="10.0.0.5").effective()
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.executor.extraJavaOptions" not in found


@pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "k8s://https://head:6443"])
def test_executors_find_the_driver_where_the_node_listens(master: str) -> None:
    found = SparkSettings(master=master, host="10.0.0.5").effective()
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "10.0.0.5"
    assert found["spark.executor.extraJavaOptions"] == JAVA_OPTIONS


def test_a_driver_behind_another_address_can_be_told() -> None:
    found = SparkSettings(master="yarn", host="10.0.0.5", conf={"spark.driver.host": "node.example"}).effective()
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("node.example", "10.0.0.5")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::1", ""])
@pytest.mark.parametrize("master", ["spark://head:7077", "yarn", "k8s://https://127.0.0.1:6443"])
def test_an_address_that_means_something_else_to_executors_is_refused(master: str, host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot reach a node.*--host"):
        SparkSettings(master=master, host=host).effective()


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_a_cluster_on_this_machine_may_use_loopback(master: str) -> None:
    assert SparkSettings(master=master).effective()["spark.driver.host"] == "127.0.0.1"


def test_the_port_of_the_journals_is_given_as_those_of_spark_are() -> None:
    assert SparkSettings().journals_port == 0
    assert SparkSettings(conf={JOURNALS_PORT: "7703"}).journals_port == 7703


@pytest.mark.parametrize("port", ["", "x", "-1", "65536", "7.5"])
def test_what_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(ConfigError, match=r"spark\.anabranch\.journals\.port"):
        _ = SparkSettings(conf={JOURNALS_PORT: port}).journals_port


def test_a_temporary_directory_with_a_long_path_gives_up_its_sockets() -> None:
    longest = "/tmp/" + "x" * 55
    assert worker_sockets(Path(longest)) == {"spark.python.unix.domain.socket.dir": longest}
    assert worker_sockets(Path(longest + "x")) == {"spark.python.unix.domain.socket.enabled": "false"}
