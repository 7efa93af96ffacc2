package config

// OnError gives what an on_error key means: dead_letter without a dead-letter topic
// is fail.
func (c *Config) OnError(written string) string {
	if written == OnErrorDeadLetter && c.DeadLetter.Topic == "" {
		return OnErrorFail
	}
	return written
}

// InstanceID gives the id of this instance: that of the file, else the one that is
// kept in the store directory.
func (c *Config) InstanceID(kept string) string {
	if c.Input.InstanceID != "" {
		return c.Input.InstanceID
	}
	return kept
}

// DimensionIndex gives the position of the dimension of that name in Dimensions, -1
// when there is none. The path of its keys is `dimensions[INDEX]`.
func (c *Config) DimensionIndex(name string) int {
	for i := range c.Dimensions {
		if c.Dimensions[i].Name == name {
			return i
		}
	}
	return -1
}
