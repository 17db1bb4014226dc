"""PUBLIC_URL: which job types need it, and why upstreams could not reach us there. Said by `apply` and by `doctor`."""

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

MEMBER: Final = "file"  # of an object in a payload that stands for a file
_URL_OF_FILE: Final = re.compile(r"""\bpayload\b[^\s,;+?:]*(\.url\b|\[['"]url['"]\])""")
_NEAR: Final = (".localhost", ".local", ".internal")  # names that no public resolver knows


def needs(upstream: Mapping[str, Any], payload_schema: Mapping[str, Any]) -> str:
    """What of a job type (its merged block, its schema) upstreams need the address for, in words; empty: nothing."""
    callbacks = upstream.get("mode") == "callback"
    files = _takes_files(payload_schema) or any(_URL_OF_FILE.search(source) for source in _sources(upstream))
    return " and ".join([*(["callbacks"] if callbacks else []), *(["files"] if files else [])])


def doubt(public_url: str, base_urls: Iterable[str]) -> str:
    """Why upstreams at these addresses may not reach us; empty where they do. What is near finds near addresses too."""
    if not public_url:
        return "is empty"
    if all(is_near(url) for url in base_urls):
        return ""
    if is_near(public_url):
        return f"({public_url}) is an address of this machine or network"
    if urlsplit(public_url).scheme != "https":
        return f"({public_url}) is plain http: what is sent there, tokens too, can be read on the way"
    return ""


def is_near(url: str) -> bool:
    """Whether the host is this machine, a private address, or a name without a domain, as of a container."""
    host = (urlsplit(url).hostname or "").lower()
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_NEAR)
    return found.is_private or found.is_loopback or found.is_link_local or found.is_unspecified


def _sources(upstream: Mapping[str, Any]) -> Iterator[str]:
    submit = upstream.get("submit") or {}
    headers = {**(upstream.get("headers") or {}), **(submit.get("headers") or {})}
    yield from (str(source) for source in (submit.get("path"), submit.get("body"), *headers.values()) if source)


def _takes_files(schema: Any) -> bool:
    """Without recursion: a schema may be as deep as the file."""
    todo = [schema]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            properties = part.get("properties")
            if isinstance(properties, dict) and MEMBER in properties:
                return True
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return False
