#!/bin/sh
# Pass the payload of a hook to turnlog in the background, and return 0 at once.
#
# The client waits for its hooks, and takes an exit code of 2 for a decision. What turnlog does may
# take longer than the client lives, so it gets a session of its own where there is setsid.
payload=$(cat)
root=${0%/hooks/*}
detach=
command -v setsid >/dev/null 2>&1 && detach=setsid
(
    trap '' HUP INT
    printf '%s' "$payload" | $detach sh "$root/bin/turnlog" plugin run "$1"
) >/dev/null 2>&1 &
exit 0
