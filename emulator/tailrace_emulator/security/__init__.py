"""Who may do what: logins and passwords, users and roles, permissions, impersonation."""
