"""TodoWrite: the new list and the previous one."""

from support.tool_calls import Calls


def test_the_list_is_replaced_and_both_are_kept(calls: Calls) -> None:
    first = [{"content": "Do A", "status": "in_progress", "activeForm": "Doing A"}]
    second = [
        {"content": "Do A", "status": "completed", "activeForm": "Doing A"},
        {"content": "Do B", "status": "pending", "activeForm": "Doing B"},
    ]
    assert calls.run("TodoWrite", todos=first).data == {"oldTodos": [], "newTodos": first}
    assert calls.run("TodoWrite", todos=second).data == {"oldTodos": first, "newTodos": second}
    assert calls.workspace.todos == second


def test_a_step_that_does_not_fit_is_refused(calls: Calls) -> None:
    step = {"content": "Do A", "status": "someday", "activeForm": "Doing A"}
    assert "status" in calls.refusal("TodoWrite", todos=[step])
    assert "activeForm" in calls.refusal("TodoWrite", todos=[{"content": "x", "status": "pending"}])
    assert calls.workspace.todos == []
