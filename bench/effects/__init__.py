"""``make effects``: one refund, asked for in fifteen ways, by upshot and by others."""
