"""The name of a session, given while it goes on."""

from turnlog.agent.session.recorder import Recorder
from turnlog.edit.plan import encoded
from turnlog.format.private_files import create_private_folder, write_private
from turnlog.store.paths import title_file


def name_session(recorder: Recorder, text: str) -> str:
    """Name a session, as the client's own `/rename` does; gives the name on one line."""
    from turnlog.edit.session_title import clean_title

    title = clean_title(text)
    about = {"sessionId": recorder.facts.session_id}
    recorder.aside({"type": "custom-title", "customTitle": title} | about)
    recorder.aside({"type": "agent-name", "agentName": title} | about)
    saved = title_file(recorder.path)
    create_private_folder(saved.parent)
    write_private(saved, encoded({"customTitle": title}))
    return title
