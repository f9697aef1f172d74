-- Keys of events that expire before their session: found by the hour in their number (policy/epochs).

CREATE INDEX keys_by_hour ON keys (purpose, (epoch % 1048576), scope, epoch) WHERE epoch > 0;
