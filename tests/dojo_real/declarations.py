"""What each of AgentDojo's tools may do: one table, as the author of the tools would write it.

None is destructive: that asks by itself, and what is measured is the policy.
"""

from typing import Any

from upshot import Record, choice, ref, target

Declared = dict[str, Any]

READ: Declared = {"effect": "read"}
# Strangers write some of what these give back: mail, events, files, pages, messages, reviews.
STRANGE: Declared = {**READ, "trust": "untrusted"}
TRUSTED: Declared = {**READ, "trust": "trusted"}
PRIVATE: Declared = {**READ, "private": True}

# Who wrote the words of an event or file is open; its id and name are the system's own.
EVENTS: Declared = {
    **STRANGE,
    "records": Record("event", id="id_", names=("title",), trusted=True),
}
FILE = Record("file", id="id_", names=("filename",), trusted=True)
FILES: Declared = {**STRANGE, "records": FILE}
CONTACTS: Declared = {**TRUSTED, "records": Record("contact", id="email", names=("name",))}
OWN_FILE = ref("file", own="owner")
WEB_PAGE = target(format="url")
# Only people of the company read these; other channels have to be named.
CHANNELS = ("general", "random", "private")
# What a model writes there where the user gave no words for it.
SUBJECT = choice({"", "Payment", "Refund", "Transfer"}, of="content")
RECURRING = choice({False, None}, words={True: ("recurring", "every month", "monthly")})


def _write(asked_by: tuple[str, ...] = (), **arguments: object) -> Declared:
    declared: Declared = {"effect": "write", "arguments": arguments}
    return {**declared, "asked_by": asked_by} if asked_by else declared


TOOLS: dict[str, Declared] = {
    # mail, of workspace and travel
    "send_email": {
        "effect": "write",
        "arguments": {
            "recipients": "recipient",
            "cc": "recipient",
            "bcc": "recipient",
            "subject": "content",
            "body": "content",
            "attachments.type": choice({"file"}),
            "attachments.file_id": OWN_FILE,
        },
    },
    "delete_email": _write(email_id=ref("email")),
    "get_unread_emails": STRANGE,
    "get_sent_emails": STRANGE,
    "get_received_emails": STRANGE,
    "get_draft_emails": STRANGE,
    "search_emails": STRANGE,
    "search_contacts_by_name": CONTACTS,
    "search_contacts_by_email": CONTACTS,
    # calendar, of workspace and travel: an event is mailed to its participants
    "get_current_day": TRUSTED,
    "search_calendar_events": EVENTS,
    "get_day_calendar_events": EVENTS,
    "create_calendar_event": _write(
        ("create", "add"),
        title="content",
        description="content",
        location="content",
        participants="recipient",
        start_time="time",
        end_time="free",
    ),
    "cancel_calendar_event": _write(event_id=ref("event")),
    "reschedule_calendar_event": _write(
        event_id=ref("event"), new_start_time="time", new_end_time="free"
    ),
    "add_calendar_event_participants": _write(event_id=ref("event"), participants="recipient"),
    # drive, of workspace: a new file is nobody's else, an old one may be shared
    "create_file": {**_write(content="free"), "records": FILE},
    "delete_file": _write(file_id=OWN_FILE),
    "share_file": _write(
        file_id=OWN_FILE,
        email="recipient",
        permission=choice({"r"}, words={"rw": ("read and write", "write", "edit")}),
    ),
    "append_to_file": _write(("append", "add"), file_id=OWN_FILE, content="content"),
    "get_file_by_id": FILES,
    "list_files": FILES,
    "search_files": FILES,
    "search_files_by_filename": FILES,
    # travel
    "get_user_information": PRIVATE,
    "get_all_hotels_in_city": READ,
    "get_hotels_prices": READ,
    "get_rating_reviews_for_hotels": STRANGE,
    "get_hotels_address": READ,
    "get_all_restaurants_in_city": READ,
    "get_cuisine_type_for_restaurants": READ,
    "get_restaurants_address": READ,
    "get_rating_reviews_for_restaurants": STRANGE,
    "get_dietary_restrictions_for_all_restaurants": READ,
    "get_contact_information_for_restaurants": READ,
    "get_price_for_restaurants": READ,
    "check_restaurant_opening_hours": READ,
    "get_all_car_rental_companies_in_city": READ,
    "get_car_types_available": READ,
    "get_rating_reviews_for_car_rental": STRANGE,
    "get_car_fuel_options": READ,
    "get_car_rental_address": READ,
    "get_car_price_per_day": READ,
    "reserve_hotel": _write(("reserve", "reservation"), start_day="day", end_day="day"),
    "reserve_car_rental": _write(("reserve", "reservation"), start_time="time", end_time="time"),
    "reserve_restaurant": _write(("reserve", "reservation"), start_time="time"),
    "get_flight_information": READ,
    # banking
    "get_iban": PRIVATE,
    "get_balance": PRIVATE,
    "get_user_info": PRIVATE,
    "get_most_recent_transactions": {**STRANGE, "private": True},
    "get_scheduled_transactions": {**STRANGE, "private": True},
    "read_file": STRANGE,
    "send_money": _write(
        ("send", "pay", "transfer", "refund"),
        recipient="recipient",
        amount="amount",
        subject=SUBJECT,
        date="day",
    ),
    "schedule_transaction": _write(
        recipient="recipient",
        amount="amount",
        subject=SUBJECT,
        date="day",
        recurring=RECURRING,
    ),
    "update_scheduled_transaction": _write(
        ("update", "adjust"),
        id=ref("transaction"),
        recipient="recipient",
        amount="amount",
        subject=SUBJECT,
        date="day",
        recurring=RECURRING,
    ),
    "update_password": _write(password="secret"),
    "update_user_info": _write(),
    # slack
    # The service lists their names; strangers' words may be in one.
    "get_channels": {**STRANGE, "records": Record("channel", id="", trusted=True)},
    "read_channel_messages": STRANGE,
    "read_inbox": {**STRANGE, "private": True},
    "get_users_in_channel": STRANGE,
    "add_user_to_channel": _write(channel=ref("channel")),
    "invite_user_to_slack": _write(user_email="recipient"),
    "remove_user_from_slack": _write(),
    "send_direct_message": _write(
        ("send", "write", "message"), recipient="recipient", body="content"
    ),
    "send_channel_message": _write(
        ("send", "post", "write"), channel=choice(CHANNELS), body="content"
    ),
    "get_webpage": {**STRANGE, "network": True, "arguments": {"url": WEB_PAGE}},
    "post_webpage": {**_write(url=WEB_PAGE, content="content"), "network": True},
}


def may_harm(tool: str) -> bool:
    """Whether a call of it changes something or reaches the network."""
    declared = TOOLS[tool]
    return declared["effect"] != "read" or declared.get("network", False)
