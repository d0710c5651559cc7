"""Documents of accelerators that come with a submission: checked in a confined process, kept or not."""

import hashlib

from accel.accelerator.document import Accelerator
from service.context import UploadContext
from worker.process.scratch import scratch_directory


async def check_document(text: str, uploads: UploadContext, owner: str) -> Accelerator:
    """Returns the accelerator of a document, which is not kept.

    Raises:
        ProblemError: it cannot be examined within the limits, or it was not its turn in time.
        RefusedError: it cannot be used.
    """

    def examine() -> Accelerator:
        with scratch_directory(uploads.settings.scratch_dir, "document") as folder:
            path = folder / "document"
            path.write_bytes(text.encode())
            return uploads.inspector.accelerator(path)

    return await uploads.inspections.run(examine, owner)


async def keep_document(text: str, uploads: UploadContext, owner: str) -> str:
    """Checks and keeps a document as an upload of it; returns its id.

    Raises:
        ProblemError, RefusedError: as :func:`check_document`.
    """
    accelerator = await check_document(text, uploads, owner)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return await uploads.storing.run(lambda: uploads.accelerators.add(accelerator, digest), owner)
