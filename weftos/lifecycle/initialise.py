"""Makes a data directory: its folders, the node's keys, and a configuration file to fill in.

``format`` is written last and is the mark of a whole directory; making goes on where an earlier try was cut off.
Nothing that exists is replaced.
"""

from __future__ import annotations

import os
from pathlib import Path

from chain.errors import KeyFileError
from chain.keys.keys import Keys, create_keys, load_keys
from weftos.errors import WeftosError
from weftos.ownership import make_own_ground
from weftos.paths import FORMAT_LINE, has_data

FOLDERS = ("archive", "heads", "journal", "logs", "workspaces")
_MAY_PRECEDE = frozenset({*FOLDERS, "keys", "weftos.toml", "lock"})

CONFIGURATION = """\
# weftos.toml: the configuration of this node. Everything has a default; uncomment what you change.
# Order of force: flags, then WEFTOS_* environment variables, then this file, then defaults.
# weftos config view shows what is in force and why; weftos config validate FILE checks a file.

# [node]
# name = "my-node"            # a petname; the true name is the fingerprint of the node's first key
# engine = "ray"              # ray, or local: cells as plain child processes
# check_replay = false        # go through each turn once more: would its behaviour do the same after a crash?
# ray_address = "127.0.0.1:6379"        # attach to this Ray cluster instead of starting one
# ray_token = "/path/to/its/token"
# cells_listen = "127.0.0.1:0"          # where cells of that cluster dial this node

# [model]
# default_provider = "offline"
# default_model = ""          # empty: the provider's own

# Any server that speaks the OpenAI chat protocol. The key stays in the environment: name its variable here.
# [providers.ollama]
# kind = "openai"
# base_url = "http://127.0.0.1:11434/v1"
# model = "llama3.2"
# api_key_env = ""
# stream = true
# timeout_s = 300.0
# [providers.ollama.prices."llama3.2"]  # of a million tokens, for budgets of money
# input = "0.25"
# output = "2.00"
# cached = "0.025"            # of what is read and was kept; left out: as input

# What every agent gets; a spawn may say otherwise of its own.
# [agent]
# system_prompt = "Answer in one sentence."
# [agent.pipeline]
# skip_stages = []            # stages that are left out; docs/agent.md names them
# [agent.history]
# max_tokens = 8192           # system prompt and history together
# [agent.execution]
# max_tool_rounds = 25

# A tool of your own: a decorated Python function, run in a worker process.
# [tools.word_count]
# import = "mytools:word_count"
# python_path = ["/path/to/its/folder"]
# env = ["MY_TOKEN"]          # variables of this node's environment that its worker is given, by name

# A behaviour of your own: a decorated Python class, run in a cell.
# [behaviours.echo]
# import = "mybehaviours:Echo"
# python_path = ["/path/to/its/folder"]
# isolation = "dedicated"

# [memory]
# embedder = "lexical"        # by pieces of words, not by meaning; or a provider above with /v1/embeddings
# model = ""                  # its embedding model
# budget_tokens = 1500        # what an agent recalls before it asks its model; 0: nothing

# Other nodes: where they may dial this one, and what each may (send, ps, spawn, kill). weftos peer manages them too.
# [mesh]
# listen = "127.0.0.1:4300"
# deadline_s = 60.0           # how long a message to another node is carried before it is a dead letter
# [peers.n2]
# origin = "weftos-abcdefghijklmnopqrstuvwxyz"  # what weftos node id prints there
# address = "127.0.0.1:4301"  # where to dial it; left out: it dials
# may = ["send", "ps"]

# [limits]
# hang_s = 5                  # how long a process may hold its cell without awaiting anything
# cell_memory_mib = 2048      # what a cell may have of its own; 0: any amount
# warm_cells = 4              # cells that wait for processes that want one of their own, at most
# mailbox_messages = 1024
# agent_children = 100        # processes that one agent may have below itself
# agent_subtree = 1000        # and that the uppermost agent may, with all that those make
# agent_spawns_per_trace = 100  # and that may come of one message
# peer_processes = 1000       # that count to one peer: what it made here, with all below
# operator_reserve = 1000     # slots that neither agents nor peers get

# [ledger]
# publish_s = 1.0             # the folder ledger/ is brought up to date at most so often
# segment_bytes = 67108864    # a segment of the journal is closed when it is larger
# compact_bytes = 67108864    # when closed segments come to so much, a snapshot takes their place

# [logs]
# level = "info"              # debug, info, warning, error
# max_bytes = 10485760
# backups = 5
"""


def initialise(data: Path) -> Keys:
    """Make ``data`` a data directory, and give it its identity. Raises WeftosError, KeyFileError, OSError."""
    if has_data(data):
        raise WeftosError(
            f"{data} is a data directory already: start its node with weftos up --data {data}", "conflict"
        )
    make_own_ground(data)
    strangers = sorted(name for name in os.listdir(data) if not _ours(name))
    if strangers or any((data / "journal").glob("*")):
        what = f"holds {strangers[0]}" if strangers else "holds a journal and no format file"
        raise WeftosError(f"{data} {what}: choose an empty directory, or one that does not exist", "conflict")
    data.chmod(0o700)
    for name in FOLDERS:
        (data / name).mkdir(mode=0o700, exist_ok=True)
    keys = _keys(data / "keys")
    if not (data / "weftos.toml").exists():
        _write(data / "weftos.toml", CONFIGURATION)
    _write(data / "format", FORMAT_LINE)
    return keys


def _ours(name: str) -> bool:
    return name in _MAY_PRECEDE or name.startswith("keys.new-") or name.endswith(".part")


def _keys(directory: Path) -> Keys:
    try:
        return load_keys(directory) if directory.exists() else create_keys(directory)
    except KeyFileError as error:
        raise WeftosError(str(error), "conflict") from error


def _write(path: Path, text: str) -> None:
    """Whole or not at all, and on the disk."""
    part = path.with_name(f"{path.name}.part")
    with open(part, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
