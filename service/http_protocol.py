"""HTTP/1.1 as uvicorn has it, where a request that is no HTTP is answered as a problem, too."""

from http import HTTPStatus

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from service.problems import MEDIA_TYPE, SERVICE_TYPES
from worker.problem import problem


class ProblemProtocol(H11Protocol):
    """A connection. No application sees a request that cannot be parsed, so that this is where it is answered."""

    def send_400_response(self, msg: str) -> None:
        """Answer and hang up; the client may be in the middle of an answer already, and then just hang up."""
        status, title = SERVICE_TYPES["bad-request"]
        body = problem("bad-request", title, msg, status=status).model_dump_json().encode()
        headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), ("Connection", "close")]
        events = (
            h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        try:
            for event in events:
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            self.logger.debug("an answer had begun")
        self.transport.close()
