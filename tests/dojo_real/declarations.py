"""What each of AgentDojo's tools may do: one table, as the author of the tools would write it.

None is destructive: that asks by itself, and what is measured is the policy.
"""

from typing import Any

Declared = dict[str, Any]

READ: Declared = {"effect": "read"}
# Strangers write some of what these give back: mail, events, files, pages, messages, reviews.
STRANGE: Declared = {**READ, "trust": "untrusted"}
WRITE: Declared = {"effect": "write"}

TOOLS: dict[str, Declared] = {
    # mail, of workspace and travel
    "send_email": WRITE,
    "delete_email": WRITE,
    "get_unread_emails": STRANGE,
    "get_sent_emails": STRANGE,
    "get_received_emails": STRANGE,
    "get_draft_emails": STRANGE,
    "search_emails": STRANGE,
    "search_contacts_by_name": READ,
    "search_contacts_by_email": READ,
    # calendar, of workspace and travel: an event is mailed to its participants
    "get_current_day": READ,
    "search_calendar_events": STRANGE,
    "get_day_calendar_events": STRANGE,
    "create_calendar_event": WRITE,
    "cancel_calendar_event": WRITE,
    "reschedule_calendar_event": WRITE,
    "add_calendar_event_participants": WRITE,
    # drive, of workspace
    "create_file": WRITE,
    "delete_file": WRITE,
    "share_file": WRITE,
    "append_to_file": WRITE,
    "get_file_by_id": STRANGE,
    "list_files": STRANGE,
    "search_files": STRANGE,
    "search_files_by_filename": STRANGE,
    # travel
    "get_user_information": READ,
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
    "reserve_hotel": WRITE,
    "reserve_car_rental": WRITE,
    "reserve_restaurant": WRITE,
    "get_flight_information": READ,
    # banking
    "get_iban": READ,
    "get_balance": READ,
    "get_user_info": READ,
    "get_most_recent_transactions": STRANGE,
    "get_scheduled_transactions": STRANGE,
    "read_file": STRANGE,
    "send_money": WRITE,
    "schedule_transaction": WRITE,
    "update_scheduled_transaction": WRITE,
    "update_password": WRITE,
    "update_user_info": WRITE,
    # slack
    "get_channels": STRANGE,
    "read_channel_messages": STRANGE,
    "read_inbox": STRANGE,
    "get_users_in_channel": STRANGE,
    "add_user_to_channel": WRITE,
    "invite_user_to_slack": WRITE,
    "remove_user_from_slack": WRITE,
    "send_direct_message": WRITE,
    "send_channel_message": WRITE,
    "get_webpage": {**STRANGE, "network": True},
    "post_webpage": {**WRITE, "network": True},
}


def may_harm(tool: str) -> bool:
    """Whether a call of it changes something or reaches the network."""
    declared = TOOLS[tool]
    return declared["effect"] != "read" or declared.get("network", False)
