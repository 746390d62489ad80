"""``make effects``: one refund, requested in fifteen ways, by upshot and by others."""
