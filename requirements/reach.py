"""Names the hosts of pip's indexes that do not answer; install.sh runs it after a failure."""

from __future__ import annotations

import os
import subprocess
import sys
from urllib.parse import urlsplit

# The environment's own pip brings these.
from pip._internal.models.index import PyPI
from pip._vendor import requests

SECONDS = 10


def indexes() -> list[str]:
    """Returns the addresses from which pip installs, by its settings."""
    command = [sys.executable, "-m", "pip", "config", "list", "--disable-pip-version-check"]
    listed = subprocess.run(command, capture_output=True, text=True).stdout
    values = dict(line.split("=", 1) for line in listed.splitlines() if "=" in line)
    settings = {name: value.strip("'\"") for name, value in values.items()}
    if any(name.endswith(".no-index") for name in settings):
        return []
    # Those of the environment come last and take precedence.
    own = [value for name, value in settings.items() if name.endswith(".index-url")]
    more = [value for name, value in settings.items() if name.endswith(".extra-index-url")]
    return [*(own[-1:] or [PyPI.simple_url]), *(url for value in more for url in value.split())]


def fault(url: str) -> str | None:
    """Returns why an address does not answer; None if it does, or is a folder."""
    if not url.startswith("http"):
        return None
    try:
        requests.head(url, timeout=SECONDS, verify=os.environ.get("PIP_CERT", True))
    except requests.exceptions.SSLError:
        return "its certificate is not known; name yours in PIP_CERT"
    except requests.exceptions.ProxyError:
        return "the proxy in HTTPS_PROXY does not answer"
    except requests.exceptions.RequestException:
        return "it does not answer; use a machine with a network, HTTPS_PROXY, or PIP_INDEX_URL"
    return None


def main() -> None:
    for url in indexes():
        if reason := fault(url):
            sys.exit(f"install.sh: error: cannot reach {urlsplit(url).hostname}: {reason}")
    sys.exit("install.sh: error: the packages cannot be installed, see above")


if __name__ == "__main__":
    main()
