"""Tables, pictures and pages: functions of records, which compute nothing themselves."""
