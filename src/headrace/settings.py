"""Where things are: from `HEADRACE_*` variables, then `headrace.toml` beside the app, then defaults.

An address makes Headrace use that server; without one it starts an embedded part. `kafka` holds client options with
the usual librdkafka names (`security.protocol`, `sasl.mechanism`, `sasl.username`, `sasl.password`, `ssl.ca.location`,
…) and is given to every Kafka client, Spark's included. A value `file:/path` is read from that file, so that a secret
stands in neither the settings nor the environment; secrets never appear in `repr`, logs or errors.

`source` is the database that tables are captured from, `postgres` unless given: a password in it may stand in the
environment or in a file, and not in `headrace.toml`.

`checkpoints` is a directory (or URI) that driver and executors share; `live_batch` is how long a batch of the live mode
lasts, which is also how much is read again after a crash; `spark` holds Spark's own options. `token` is what a client
of `headrace serve` must show; without it one is made and kept in the state directory. `proxy_header` is the header in
which a proxy in front of the console says who is signed in; nobody enters the console without it. `head_timeout` is how
long the head of a request may take.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, TomlConfigSettingsSource

from headrace import duration
from headrace.errors import PartError
from headrace.names import SETTINGS_FILE, STATE_DIRECTORY

SHORTEST_LIVE_BATCH_MS = 5_000
_PASSWORD = re.compile(r"://[^@/?]*:[^@/?]+@|[?&\s]?password\s*=\s*\S")


class Settings(BaseSettings):
    """Frozen; `Settings.load(directory)` is the way to get one."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", env_nested_delimiter="__", frozen=True, extra="forbid")

    directory: Path = Field(default_factory=Path.cwd)
    bootstrap: str | None = None
    postgres: str | None = Field(default=None, repr=False)
    source: str | None = Field(default=None, repr=False)
    kafka: dict[str, str] = Field(default_factory=dict, repr=False)
    master: str | None = None
    checkpoints: str | None = None
    live_batch: str = "2 minutes"
    spark: dict[str, str] = Field(default_factory=dict)
    token: str | None = Field(default=None, repr=False)
    proxy_header: str | None = None
    head_timeout: str = "10 seconds"

    @field_validator("head_timeout")
    @classmethod
    def _is_a_duration(cls, given: str) -> str:
        duration.parse(given)
        return given

    @field_validator("live_batch")
    @classmethod
    def _is_long_enough(cls, given: str) -> str:
        if duration.parse(given) < SHORTEST_LIVE_BATCH_MS:
            raise ValueError(f"`{given}` is too short; Spark takes no live batch below 5 seconds")
        return given

    @property
    def state(self) -> Path:
        """`.headrace/` beside the app: parts, checkpoints, progress."""
        return self.directory / STATE_DIRECTORY

    @classmethod
    def load(cls, directory: Path, **given: Any) -> Settings:
        """Read the settings of the app in `directory`; `given` (command-line options) wins over everything."""
        file = directory / SETTINGS_FILE

        class _Here(cls):
            @classmethod
            def settings_customise_sources(
                cls,
                settings_cls: type[BaseSettings],
                init_settings: PydanticBaseSettingsSource,
                env_settings: PydanticBaseSettingsSource,
                dotenv_settings: PydanticBaseSettingsSource,
                file_secret_settings: PydanticBaseSettingsSource,
            ) -> tuple[PydanticBaseSettingsSource, ...]:
                return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=file)

        try:
            here = _Here(directory=directory.resolve(), **{k: v for k, v in given.items() if v is not None})
        except (ValidationError, ValueError) as error:
            raise PartError(
                "HR-101",
                f"The settings for {directory} cannot be used: {_first(error)}",
                found=file if file.exists() else "the HEADRACE_* variables",
                fix=f"correct the named field in {SETTINGS_FILE} or in the environment",
            ) from None
        _refuse_password(file)
        values = here.model_dump()
        values["kafka"] = {name: _secret(value) for name, value in here.kafka.items()}
        for name in ("postgres", "source", "token"):
            if values[name] is not None:
                values[name] = _secret(values[name])
        return Settings.model_construct(**values)


def _refuse_password(file: Path) -> None:
    """A settings file is shared and kept in version control; the password of a source database is not for it."""
    given = TomlConfigSettingsSource(Settings, toml_file=file)().get("source")
    if isinstance(given, str) and not given.startswith("file:") and _PASSWORD.search(given):
        raise PartError(
            "HR-101",
            f"`source` in {file} holds a password, and a settings file is no place for one.",
            found="an address with a password",
            fix='write `source = "file:/path/to/a/secret"`, or set HEADRACE_SOURCE, or leave the password to PGPASSWORD'
            " or PGPASSFILE",
        )


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        detail = error.errors(include_input=False, include_url=False)[0]
        return f"`{'.'.join(str(part) for part in detail['loc'])}`: {detail['msg']}"
    return str(error)


def _secret(value: str) -> str:
    if not value.startswith("file:"):
        return value
    path = Path(value.removeprefix("file:"))
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PartError(
            "HR-101",
            f"The secret file {path} cannot be read: {error.strerror}",
            found=value,
            fix="create it or correct the path",
        ) from None
