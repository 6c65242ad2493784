"""Fetches one file: goes on after every break, starts anew once when the bytes are not the right ones."""

import re
from collections.abc import Mapping

from components.programs.hydrator.faults import HydrateError, TransferError, WrongHashError
from components.programs.hydrator.listing import Listing, Origin
from components.programs.hydrator.part import Part
from components.programs.hydrator.progress import Progress
from components.programs.hydrator.transport import Answer, Transport, host_of
from components.programs.hydrator.volume import Finished, Volume
from serving.weights.file_set import RepositoryFile
from serving.weights.recognise import recognise

_BLOCK_BYTES = 2**20
_SNIFFED_BYTES = 512
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


class Downloader:
    """Fetches files of one listing from one origin into one volume; used by several threads."""

    def __init__(
        self,
        origin: Origin,
        listing: Listing,
        volume: Volume,
        transport: Transport,
        progress: Progress,
        checkpoint_bytes: int,
    ) -> None:
        """Take everything that all files share."""
        self._origin = origin
        self._listing = listing
        self._volume = volume
        self._transport = transport
        self._progress = progress
        self._checkpoint_bytes = checkpoint_bytes

    def fetch(self, file: RepositoryFile) -> Finished:
        """The proven file; raises HydrateError naming it where it cannot be had."""
        first: WrongHashError | None = None
        while True:
            try:
                with Part(self._volume, file, self._checkpoint_bytes) as part:
                    self._progress.took_up(file.path, part.size_bytes, part.reread_bytes)
                    self._fill(part)
                    finished = part.finish()
            except WrongHashError as wrong:
                self._volume.discard_part(file.path)
                self._progress.threw_away(file.path)
                if first is not None:
                    raise HydrateError(
                        f"{file.path}: twice not what {self._listing.origin} states: {wrong}. The other files are "
                        "kept. If it stays so, the source itself is damaged: take another one (dormouse:weightsSource)"
                    ) from wrong
                first = wrong
                self._progress.say(f"{file.path}: {wrong}; deleted, fetched once more")
            else:
                self._progress.finished(file.path)
                return finished

    def _fill(self, part: Part) -> None:
        patience = self._transport.patience()
        with_range = True
        while part.missing_bytes > 0:
            before = part.size_bytes
            try:
                self._stream(part, with_range=with_range)
            except TransferError as broken:
                if part.size_bytes > before:
                    patience.progressed()
                # A source that answers ranges wrongly may still give the whole file.
                with_range = not isinstance(broken, _WrongRangeError)
                self._progress.say(f"{part.file.path}: {broken}; goes on at {part.size_bytes:,} bytes")
                patience.wait_after(broken, part.file.path)

    def _stream(self, part: Part, *, with_range: bool) -> None:
        """One connection's worth of bytes."""
        url, headers = self._origin.request(self._listing, part.file.path)
        headers["Accept-Encoding"] = "identity"
        if part.size_bytes and with_range:
            headers["Range"] = f"bytes={part.size_bytes}-"
            if part.etag and not part.etag.startswith("W/"):
                headers["If-Range"] = part.etag
        with self._transport.request(url, headers) as answer:
            skip = self._begin(part, answer)
            while part.missing_bytes > 0:
                self._transport.check_stop()
                data = answer.body.read1(min(_BLOCK_BYTES, part.missing_bytes + skip))
                if not data:
                    raise TransferError(f"{host_of(answer.url)} ended the answer too early")
                self._progress.received(part.file.path, len(data))
                if skip:
                    data, skip = data[skip:], max(0, skip - len(data))
                if data:
                    part.append(data)
                    self._progress.stored(part.file.path, part.size_bytes)

    def _begin(self, part: Part, answer: Answer) -> int:
        """How many bytes of the answer are there already; raises where it is not the file."""
        answer.check_transient()
        etag = answer.headers.get("etag", "")
        changed = bool(part.size_bytes and part.etag and etag and etag != part.etag)
        if answer.status == 206:
            self._check_range(part, answer.headers)
            if changed:
                self._start_over(part)
                raise TransferError(f"{part.file.path} changed at {host_of(answer.url)} while it was fetched")
            part.etag = etag
            return 0
        if answer.status == 416:
            self._start_over(part)
            raise TransferError(f"{host_of(answer.url)} has no bytes from there on")
        if answer.status != 200:
            if answer.redirected:
                # A signed address of a content network runs out: the hub gives a new one.
                raise TransferError(f"{host_of(answer.url)} answered {answer.status}")
            raise HydrateError(self._origin.refusal(answer.status, answer.headers, part.file.path))
        length = answer.headers.get("content-length", "")
        if length.isdecimal() and int(length) != part.file.size_bytes:
            head = answer.body.read(min(_SNIFFED_BYTES, int(length)))
            looks = recognise(part.file.path, int(length), head, b"", part.file.size_bytes)
            raise TransferError(f"{host_of(answer.url)} sent {looks}")
        if changed:
            self._start_over(part)
        part.etag = etag
        return part.size_bytes

    def _start_over(self, part: Part) -> None:
        self._progress.threw_away(part.file.path)
        part.start_over()

    def _check_range(self, part: Part, headers: Mapping[str, str]) -> None:
        match = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
        total = match[3] if match else ""
        if not match or int(match[1]) != part.size_bytes or total not in ("*", str(part.file.size_bytes)):
            raise _WrongRangeError(
                f"{part.file.path}: asked for bytes from {part.size_bytes}, got {headers.get('content-range', 'no')!r}"
            )


class _WrongRangeError(TransferError):
    """The source answered another range than was asked for."""
