"""Fault scripts: what they mean, all that is wrong with one at once, and each step at its time."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.deploy.fault_run import FaultRun
from anabranch.deploy.fault_script import BetweenFault, FaultStep, NodeFault, load_script
from anabranch.deploy.plan import Plan
from anabranch.errors import ConfigError, DeploymentError, NodeUnreachable
from anabranch.model.links import Cut, Delay, Heal, Slow
from tests.unit.deploy.files import GOOD, plan, with_free_ports

ALLOWED = "faults = true\n" + GOOD.replace('7001"', '7001", site = "east"').replace('7002"', '7002", site = "east"')


def steps(folder: Path, text: str, deployment: str = ALLOWED) -> list[FaultStep]:
    script = folder / "faults.toml"
    script.write_text(text)
    return load_script(script, plan(folder, deployment))


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(DeploymentError) as caught:
        steps(folder, text)
    return [str(mistake) for mistake in caught.value.mistakes]


def step(**keys: str) -> str:
    return "[[steps]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())


def test_every_fault_is_read_and_the_steps_are_in_the_order_of_their_times(tmp_path: Path) -> None:
    text = "".join(
        [
            step(at='"40s"', do='"restart"', node='"a"', lose_disk="true"),
            step(at='"1.5s"', do='"cut"', between='["a", "b"]'),
            step(at='"2s"', do='"delay"', between='["a", "c"]', delay='"200ms"', jitter='"20ms"'),
            step(at='"3s"', do='"slow"', between='["east", "c"]', rate='"1Mbit/s"'),
            step(at='"4s"', do='"heal"', between='["east", "east"]'),
            step(at='"30s"', do='"kill"', node='"a"'),
        ]
    )
    made = steps(tmp_path, text)
    assert [each.what for each in made] == [
        BetweenFault(one="a", other="b", fault=Cut()),
        BetweenFault(one="a", other="c", fault=Delay(200_000, 20_000)),
        BetweenFault(one="east", other="c", fault=Slow(125_000)),
        BetweenFault(one="east", other="east", fault=Heal()),
        NodeFault(do="kill", node="a"),
        NodeFault(do="restart", node="a", lose_disk=True),
    ]
    assert [str(each) for each in made] == [
        "at 1500ms a - b: cut",
        "at 2s a - c: delay 200ms ± 20ms",
        "at 3s east - c: at most 1 Mbit/s",
        "at 4s east - east: heal",
        "at 30s kill a",
        "at 40s restart a without its disk",
    ]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = "".join(
        [
            step(at='"1s"', do='"kil"', node='"a"'),
            step(at='"1s"', do='"kill"', node='"e"'),
            step(at='"1s"', do='"kill"', between='["a", "b"]'),
            step(do='"cut"', between='["a"]'),
            step(at='"1s"', do='"cut"', between='["a", "west"]', rate='"1Mbit/s"'),
            step(at='"soon"', do='"delay"', between='["a", "a"]', delay='"1ms"', jitter='"2ms"'),
            step(at='"1s"', do='"slow"', between='["a", "b"]', rate="7"),
            step(at='"1s"', do='"slow"', between='["a", "b"]', speed="7"),
        ]
    )
    assert told(tmp_path, text) == [
        "steps[5].at: 'soon' is not a duration. Write a number and a unit: 500ms, 10s, 5m, 1.5h or 2d. [bad-value]",
        "steps[6].rate: 7 is not a rate. Write a number and a unit: 500kbit/s, 10Mbit/s, 1Gbit/s. [bad-value]",
        "steps[7].speed: steps[7] has no key `speed`. Candidates: at, do, node, between, delay, jitter, rate, "
        "lose_disk. [unknown-key]",
        "steps[0].do: There is no fault 'kil'. Candidates: kill, pause, resume, restart, cut, delay, slow, heal. "
        "[bad-fault]",
        "steps[1].node: There is no node 'e'. Candidates: a, b, c, d. [unknown-node]",
        "steps[2].between: `between` does not apply to kill. It takes: node. [bad-fault]",
        "steps[2].node: The step has no `node`. Add node. [missing-key]",
        "steps[3].at: The step has no `at`. Add at. [missing-key]",
        'steps[3].between: A link has two ends, not 1. Write between = ["a", "b"]. [bad-link]',
        "steps[4].rate: `rate` does not apply to cut. It takes: between. [bad-fault]",
        "steps[4].between: There is no node or site 'west'. Candidates: east, a, b, c, d. [unknown-node]",
        "steps[5].between: There is no link between a and a: they are the same node. Name two nodes. [bad-link]",
        "steps[5].jitter: The jitter is larger than the delay: some messages would arrive before they were sent. "
        "Raise the delay, or lower the jitter. [bad-fault]",
        "steps[7].rate: The step has no `rate`. Add rate. [missing-key]",
    ]


def test_a_script_without_steps_does_nothing_that_anyone_wants(tmp_path: Path) -> None:
    assert [each.partition(":")[0] for each in told(tmp_path, "")] == ["steps"]
    assert told(tmp_path, "steps = 7") == ["steps: 7 is a number. Write tables in a list: [[steps]]. [wrong-type]"]


def test_a_deployment_that_does_not_allow_faults_has_no_scripts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="faults = true"):
        steps(tmp_path, step(at='"1s"', do='"kill"', node='"a"'), GOOD)


# --- carrying it out -------------------------------------------------------------------------------------------------


@pytest.fixture
def nobody(tmp_path: Path) -> Plan:
    """A deployment of which no node runs."""
    return plan(tmp_path, with_free_ports(ALLOWED))


def test_each_step_is_done_at_its_time_and_one_that_fails_does_not_end_the_script(nobody: Plan) -> None:
    now = 100.0
    done: list[object] = []
    lines: list[str] = []

    def hurt(request: dict[str, object]) -> None:
        done.append(request["node"])
        if request["node"] == "b":
            raise NodeUnreachable("It is gone.", remedy="Leave it.")

    script = [
        FaultStep(at_us=1_000_000, what=NodeFault(do="kill", node="a")),
        FaultStep(at_us=1_000_000, what=NodeFault(do="kill", node="b")),
        FaultStep(at_us=2_500_000, what=BetweenFault(one="a", other="b", fault=Cut())),
        FaultStep(at_us=3_000_000, what=NodeFault(do="restart", node="c")),
    ]
    run = FaultRun(script, nobody, hurt_node=hurt, tell=lines.append, clock=lambda: now)
    run.advance()
    assert (done, run.wait_s) == ([], 1.0)
    now += 1.5
    run.advance()
    assert (done, run.wait_s, run.failed) == (["a", "b"], 1.0, 1)
    now += 10
    run.advance()
    assert run.is_over
    assert (done, run.failed) == (["a", "b", "c"], 2)
    assert lines == [
        "at 1s kill a",
        "at 1s kill b",
        "  failed: It is gone. Leave it.",
        "at 2500ms a - b: cut",
        "  failed: Neither a nor b can be reached. Start the deployment first.",
        "at 3s restart c",
    ]
