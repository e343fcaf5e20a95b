"""Tokens of clients: names, roles, rotation, and files that only their owner may touch."""

import asyncio
import os
import pwd

import pytest
from tests.unit.control.test_service import OPERATOR, TOKEN, TOKENS, VIEWER, demand, served

from lightloom.control import private_files
from lightloom.control.client import ControlClient
from lightloom.control.connections import user_name
from lightloom.control.journal import Journal
from lightloom.control.private_files import keep_private, make_private, read_private
from lightloom.control.refusals import JournalError, RegionFileError, ServiceError
from lightloom.control.service import ControlService
from lightloom.control.session import LEAST_ROLE
from lightloom.control.token import ClientRole, TokenFile, read_tokens, token_for


def written(folder, text, mode=0o600):
    path = folder / "tokens"
    path.touch(mode=mode)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_file_is_made_with_a_job_and_an_operator(tmp_path):
    path = tmp_path / "r.token"
    made = TokenFile(path, make=True)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [(token.name, token.role) for token in made.tokens] == [
        ("job", ClientRole.JOB),
        ("operator", ClientRole.OPERATOR),
    ]
    assert TokenFile(path, make=True).tokens == made.tokens
    job, operator = (token.text for token in made.tokens)
    assert (token_for(path), token_for(path, ClientRole.OPERATOR)) == (job, operator)
    assert job != operator
    assert made.identify(job).name == "job"
    for shown in (None, 7, [job], {"a": job}, "", job + "x", job[:-1], "é", "\ud800"):
        assert made.identify(shown) is None
    assert job not in repr(made.tokens)
    with pytest.raises(RegionFileError, match=r"no client of the role view; add a line NAME view"):
        token_for(path, ClientRole.VIEW)


def test_a_file_of_one_word_is_the_token_of_a_job(tmp_path):
    (token,) = read_tokens(written(tmp_path, f"{TOKEN}\n"))
    assert (token.name, token.role, token.text) == ("job", ClientRole.JOB, TOKEN)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tokens: no token; expected NAME ROLE TOKEN"),
        ("# nothing\n", "tokens: no token; expected NAME ROLE TOKEN"),
        ("short", "tokens, line 1: expected a token of 16 to 512 ASCII characters"),
        ("é" * 16, "tokens, line 1: expected a token of 16 to 512 ASCII characters"),
        (f"a job {'x' * 513}", "tokens, line 1: expected a token of 16 to 512 ASCII characters"),
        (f"a {TOKEN}", "tokens, line 1: expected NAME ROLE TOKEN, got 2 words"),
        (f"a job {TOKEN} x", "tokens, line 1: expected NAME ROLE TOKEN, got 4 words"),
        (f"\n../a job {TOKEN}", "tokens, line 2: '../a': expected a name of letters, digits, "),
        (f"a\x1b[2J job {TOKEN}", r"tokens, line 1: 'a\x1b[2J': expected a name of letters, "),
        (f"a jbo {TOKEN}", "tokens, line 1: role 'jbo': expected one of view, job, operator; did"),
        (f"a job {TOKEN}\na job {VIEWER}", "tokens: two clients have the same name"),
        (f"a job {TOKEN}\nb job {TOKEN}", "tokens: two clients have the same token"),
        ("#" * 70_000, "tokens: the token exceeds the limit of 65,536 bytes"),
    ],
)
def test_a_wrong_file_is_one_line_without_a_token(tmp_path, text, message):
    with pytest.raises(RegionFileError) as refusal:
        read_tokens(written(tmp_path, text))
    assert str(refusal.value).startswith(f"{tmp_path}/{message}")
    assert str(refusal.value).isprintable()
    assert TOKEN not in str(refusal.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_others_may_not_read_a_token(tmp_path, mode):
    with pytest.raises(RegionFileError, match=r"others may read the token; run chmod 600 on it$"):
        read_tokens(written(tmp_path, TOKENS, mode))


def test_links_folders_and_files_of_others_are_refused(tmp_path, monkeypatch):
    path = written(tmp_path, TOKENS)
    link, hanging = tmp_path / "link", tmp_path / "hanging"
    link.symlink_to(path)
    hanging.symlink_to(tmp_path / "victim")
    for place in (link, hanging):
        for make in (False, True):
            with pytest.raises(RegionFileError, match=r"a symbolic link; name the file itself$"):
                TokenFile(place, make=make)
        with pytest.raises(JournalError, match=r"a symbolic link; name the file itself$"):
            keep_private(place, "journal", JournalError)
    assert not (tmp_path / "victim").exists()
    with pytest.raises(RegionFileError, match=r"tokens: cannot make the token: file exists$"):
        make_private(path, b"x", "token")
    with pytest.raises(RegionFileError, match=r"expected a file$"):
        read_tokens(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(RegionFileError, match=r"pipe: expected a file$"):
        read_private(tmp_path / "pipe", "token", 10)
    with pytest.raises(RegionFileError, match=r"none: no such file$"):
        read_tokens(tmp_path / "none")
    with pytest.raises(RegionFileError, match="cannot make the token: no such file or directory"):
        TokenFile(tmp_path / "none" / "token", make=True)
    monkeypatch.setattr(private_files.os, "geteuid", lambda: 4711)
    user = os.getuid()
    for use in (lambda: read_tokens(path), lambda: keep_private(path, "token")):
        with pytest.raises(RegionFileError, match=rf"the token belongs to user {user}, not to who"):
            use()


def test_a_journal_is_made_its_owners_alone(tmp_path):
    path = tmp_path / "journal"
    mask = os.umask(0)
    try:
        keep_private(path, "journal")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("content")
    path.chmod(0o644)
    keep_private(path, "journal")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "content"
    with pytest.raises(FileNotFoundError):
        keep_private(tmp_path / "none" / "journal", "journal", JournalError)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(JournalError, match=r"link: a symbolic link; name the file itself$"):
        Journal(tmp_path / "link", "r0")
    other = Journal(tmp_path / "other", "r0")
    for name in ("other", "other-wal", "other-shm"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    other.close()


def test_a_changed_file_counts_and_a_broken_one_does_not(tmp_path):
    path = written(tmp_path, TOKENS)
    tokens = TokenFile(path)
    assert not tokens.refresh()
    path.write_text(f"job job {VIEWER}{VIEWER}\n")
    assert tokens.refresh()
    assert tokens.identify(TOKEN) is None
    assert tokens.identify(VIEWER * 2).name == "job"
    path.write_text("job jbo x")
    assert not tokens.refresh()
    assert "role 'jbo'" in tokens.problem
    assert tokens.identify(VIEWER * 2) is not None
    path.unlink()
    assert not tokens.refresh()
    assert tokens.problem.endswith("no such file")
    path.touch(mode=0o600)
    path.write_text(TOKENS)
    assert tokens.refresh()
    assert not tokens.problem
    assert tokens.identify(TOKEN).role is ClientRole.JOB


def test_rotation_needs_no_restart_and_cuts_off_who_shows_the_old_token(tmp_path, monkeypatch):
    monkeypatch.setattr("lightloom.control.service._TOKENS_S", 0.01)

    async def scenario():
        async with served(tmp_path) as (service, _, _switch):
            path = tmp_path / "r0.token"
            async with (
                ControlClient(service.address, TOKEN) as job,
                ControlClient(service.address, VIEWER) as wall,
            ):
                assert (job.region["client"], job.region["role"]) == ("job", "job")
                path.write_text(f"wall view {VIEWER}\njob job new-{TOKEN}\n")
                async with asyncio.timeout(2):
                    while job._tasks[0].done() is False:
                        await asyncio.sleep(0.01)
                with pytest.raises(ServiceError, match="not connected"):
                    await job.request("status")
                assert (await wall.request("status"))["ok"]
            with pytest.raises(ServiceError, match="the service refused the token"):
                await ControlClient(service.address, TOKEN).__aenter__()
            async with ControlClient(service.address, f"new-{TOKEN}") as client:
                assert (await client.circuits_for(demand((0, 7))))["result"] == "done"

    asyncio.run(scenario())


def test_each_role_may_do_what_it_is_for(tmp_path):
    async def scenario():
        async with served(tmp_path) as (service, session, switch):
            for token, role in ((VIEWER, "view"), (TOKEN, "job"), (OPERATOR, "operator")):
                async with ControlClient(service.address, token) as client:
                    assert client.region["role"] == role
                    ops = {**dict.fromkeys(session.operators.handlers, ClientRole.OPERATOR)}
                    for op, least in {**ops, **LEAST_ROLE}.items():
                        reply = await client.request(op, nonsense=1)
                        refused = "has the role" in reply["error"]
                        assert refused == (ClientRole[role.upper()] < least), (op, role)
            async with ControlClient(service.address, VIEWER) as client:
                reply = await client.request("join", server=1)
                assert reply["error"] == (
                    "join: wall has the role view; expected a token of the role job"
                )
                # nor may it have the service hold a body
                with pytest.raises(ServiceError, match=r"a body of 512 bytes; limit 0$"):
                    await client.circuits_for(demand((0, 7)))
            assert not switch.commands

    asyncio.run(scenario())


def test_who_is_what_the_token_and_the_socket_say(tmp_path):
    user = pwd.getpwuid(os.getuid()).pw_name

    async def scenario(**settings):
        async with served(tmp_path, settings=settings) as (service, session, _switch):
            async with ControlClient(service.address, TOKEN) as client:
                bytes_sent = demand((0, 7), (1, 4)).tobytes()
                assert (await client.request("demand", bytes_sent, who="root"))["ok"]
                reply = await client.request("demand", demand((2, 5)).tobytes(), who="a\x1b[1m")
                assert reply["error"] == "who: expected a line of up to 200 characters"
            return session.controller.journal.last(1)[0].intent.reason

    reason = asyncio.run(scenario())
    assert reason.who == f"job ({user})"
    assert reason.text.endswith(" (for root)")
    (tmp_path / "r0.sqlite").unlink()
    assert asyncio.run(scenario(host="127.0.0.1")).who == "job (127.0.0.1)"


def test_a_command_is_of_the_user_who_runs_it(monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert user_name(os.getuid()) == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setattr("lightloom.control.connections.pwd.getpwuid", {}.__getitem__)
    assert user_name(os.getuid()) == f"user {os.getuid()}"


def test_a_socket_that_another_service_has_taken_over_stays(tmp_path):
    async def scenario():
        async with served(tmp_path) as (service, _, _switch):
            path = tmp_path / "r0.sock"
            path.unlink()
            path.write_text("of somebody else")
        assert isinstance(service, ControlService)
        assert path.exists()

    asyncio.run(scenario())
