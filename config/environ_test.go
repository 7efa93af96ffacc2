package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEnvironment(t *testing.T) {
	for name, tt := range map[string]struct {
		environ []string
		got     func(*Config) any
		want    any
	}{
		"list":                      {[]string{"ENRICHER_KAFKA__BROKERS=a:1,b:2"}, func(c *Config) any { return c.Kafka.Brokers }, []string{"a:1", "b:2"}},
		"list with spaces":          {[]string{"ENRICHER_KAFKA__BROKERS= a:1 , b:2 "}, func(c *Config) any { return c.Kafka.Brokers }, []string{"a:1", "b:2"}},
		"string":                    {[]string{"ENRICHER_INPUT__GROUP=other"}, func(c *Config) any { return c.Input.Group }, "other"},
		"string like a number":      {[]string{"ENRICHER_INPUT__GROUP=5"}, func(c *Config) any { return c.Input.Group }, "5"},
		"value with =":              {[]string{"ENRICHER_KAFKA__SASL__MECHANISM=PLAIN", "ENRICHER_KAFKA__SASL__USERNAME=u", "ENRICHER_KAFKA__SASL__PASSWORD=a=b,c "}, func(c *Config) any { return c.Kafka.SASL.Password.Reveal() }, "a=b,c "},
		"empty":                     {[]string{"ENRICHER_DEAD_LETTER__TOPIC="}, func(c *Config) any { return c.DeadLetter.Topic }, ""},
		"bool":                      {[]string{"ENRICHER_KAFKA__CREATE_TOPICS=true"}, func(c *Config) any { return c.Kafka.CreateTopics }, true},
		"number":                    {[]string{"ENRICHER_PROCESSING__CAPACITY=5"}, func(c *Config) any { return c.Processing.Capacity }, 5},
		"duration":                  {[]string{"ENRICHER_PROCESSING__WARMUP__TIMEOUT=5s"}, func(c *Config) any { return c.Processing.Warmup.Timeout }, 5 * time.Second},
		"size":                      {[]string{"ENRICHER_STORE__MEMORY=1GiB"}, func(c *Config) any { return c.Store.Memory }, Size(1 << 30)},
		"start":                     {[]string{"ENRICHER_INPUT__START=latest"}, func(c *Config) any { return c.Input.Start }, Start{Latest: true}},
		"enum":                      {[]string{"ENRICHER_LOG__LEVEL=debug"}, func(c *Config) any { return c.Log.Level }, "debug"},
		"the last one counts":       {[]string{"ENRICHER_LOG__LEVEL=debug", "ENRICHER_LOG__LEVEL=warn"}, func(c *Config) any { return c.Log.Level }, "warn"},
		"one underscore is not us":  {[]string{"ENRICHER_PORT=tcp://10.0.0.1:80", "ENRICHER_SERVICE_HOST=10.0.0.1", "ENRICHER_PORT_80_TCP=x", "ENRICHER_LOG=5", "ENRICHER_=x"}, func(c *Config) any { return c.Log }, Log{Level: "info", Format: "auto"}},
		"other programs":            {[]string{"ENRICHERS_LOG__LEVEL=debug", "MY_ENRICHER_LOG__LEVEL=debug", "enricher_log__level=debug", "ENRICHER_LOG__LEVEL", ""}, func(c *Config) any { return c.Log }, Log{Level: "info", Format: "auto"}},
		"a value that is built":     {[]string{"ENRICHER_PROCESSING__ORDERING=ordered"}, func(c *Config) any { return c.Processing.Ordering }, "ordered"},
		"the rest of a section":     {[]string{"ENRICHER_INPUT__TOPICS=x"}, func(c *Config) any { return c.Input.Group }, "g"},
		"the place of an override":  {[]string{"ENRICHER_INPUT__TOPICS=x,y"}, func(c *Config) any { return c.Locate("input.topics[1]") }, "ENRICHER_INPUT__TOPICS"},
		"the place of what is left": {[]string{"ENRICHER_INPUT__TOPICS=x,y"}, func(c *Config) any { return c.Locate("input.group") }, "f.yaml:3"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, tt.got(mustParse(t, minimal, tt.environ...)))
		})
	}
}

// Required keys may all come from the environment.
func TestEnvironmentAlone(t *testing.T) {
	cfg := mustParse(t, "{}", "ENRICHER_KAFKA__BROKERS=a:1", "ENRICHER_INPUT__TOPICS=orders", "ENRICHER_INPUT__GROUP=g", "ENRICHER_OUTPUT__TOPIC=out")
	assert.Equal(t, []string{"orders"}, cfg.Input.Topics)
	assert.Equal(t, 45*time.Second, cfg.Input.SessionTimeout)
}

func TestEnvironmentProblems(t *testing.T) {
	for name, tt := range map[string]struct {
		environ []string
		want    string
	}{
		"misspelled":           {[]string{"ENRICHER_KAFKA__BROKER=a:1"}, "ENRICHER_KAFKA__BROKER: kafka.broker: unknown key (did you mean ENRICHER_KAFKA__BROKERS?)\n"},
		"misspelled section":   {[]string{"ENRICHER_KAFAK__BROKERS=a:1"}, "ENRICHER_KAFAK__BROKERS: kafak.brokers: unknown key (did you mean ENRICHER_KAFKA__BROKERS?)\n"},
		"lower case":           {[]string{"ENRICHER_kafka__brokers=a:1"}, "ENRICHER_kafka__brokers: kafka.brokers: unknown key (did you mean ENRICHER_KAFKA__BROKERS?)\n"},
		"three underscores":    {[]string{"ENRICHER_DEAD__LETTER__TOPIC=a"}, "ENRICHER_DEAD__LETTER__TOPIC: dead.letter.topic: unknown key (did you mean ENRICHER_DEAD_LETTER__TOPIC?)\n"},
		"nothing like it":      {[]string{"ENRICHER_A__B=a"}, "ENRICHER_A__B: a.b: unknown key (a name made of a key's path, such as ENRICHER_KAFKA__BROKERS)\n"},
		"nothing at all":       {[]string{"ENRICHER___=a"}, "ENRICHER___: .: unknown key (a name made of a key's path, such as ENRICHER_KAFKA__BROKERS)\n"},
		"element of a list":    {[]string{"ENRICHER_DIMENSIONS__0__NAME=a"}, "ENRICHER_DIMENSIONS__0__NAME: dimensions.0.name: elements of a list of objects can't be set by a variable (write dimensions into the file)\n"},
		"section":              {[]string{"ENRICHER_KAFKA__TLS=true"}, "ENRICHER_KAFKA__TLS: kafka.tls: is a section, which a variable can't set (ENRICHER_KAFKA__TLS__ENABLED and so on, one variable for each key)\n"},
		"mapping":              {[]string{"ENRICHER_OUTPUT__SELECT={a: b}"}, "ENRICHER_OUTPUT__SELECT: output.select: is a mapping, which a variable can't set (write it into the file)\n"},
		"key in a mapping":     {[]string{"ENRICHER_OUTPUT__SELECT__A=b"}, "ENRICHER_OUTPUT__SELECT__A: output.select.a: unknown key (did you mean ENRICHER_OUTPUT__SELECT?)\n"},
		"no unit":              {[]string{"ENRICHER_INPUT__SESSION_TIMEOUT=5"}, "ENRICHER_INPUT__SESSION_TIMEOUT: input.session_timeout: 5 has no unit (5s)\n"},
		"empty duration":       {[]string{"ENRICHER_INPUT__SESSION_TIMEOUT="}, "ENRICHER_INPUT__SESSION_TIMEOUT: input.session_timeout: \"\" is not a duration (a number with a unit, such as 45s, 100ms, 1h30m)\n"},
		"empty list":           {[]string{"ENRICHER_INPUT__TOPICS="}, "ENRICHER_INPUT__TOPICS: input.topics: is an empty list (topics: [orders])\n"},
		"empty element":        {[]string{"ENRICHER_INPUT__TOPICS=a,"}, "ENRICHER_INPUT__TOPICS: input.topics[1]: is empty (such as orders)\n"},
		"not a bool":           {[]string{"ENRICHER_KAFKA__CREATE_TOPICS=1"}, "ENRICHER_KAFKA__CREATE_TOPICS: kafka.create_topics: \"1\" is not a bool (true)\n"},
		"empty required":       {[]string{"ENRICHER_INPUT__GROUP="}, "ENRICHER_INPUT__GROUP: input.group: is empty (such as orders-enricher)\n"},
		"not built":            {[]string{"ENRICHER_DEAD_LETTER__MAX_RATE=0"}, "ENRICHER_DEAD_LETTER__MAX_RATE: dead_letter.max_rate: not built yet (leave it out)\n"},
		"below what isn't":     {[]string{"ENRICHER_ADMIN__TLS__CERT_FILE="}, "ENRICHER_ADMIN__TLS__CERT_FILE: admin.tls.cert_file: not built yet (leave it out)\n"},
		"value not built":      {[]string{"ENRICHER_PROCESSING__ORDERING=unordered"}, "ENRICHER_PROCESSING__ORDERING: processing.ordering: \"unordered\" is not built yet (ordered)\n"},
		"found in a check":     {[]string{"ENRICHER_OUTPUT__TOPIC=orders"}, "ENRICHER_OUTPUT__TOPIC: output.topic: \"orders\" is also an input topic (a topic other than input.topics[0])\n"},
		"no place for letters": {[]string{"ENRICHER_INPUT__ON_ERROR=dead_letter"}, "ENRICHER_INPUT__ON_ERROR: input.on_error: dead_letter is written, but dead_letter.topic is not set (dead_letter.topic: NAME, or on_error: fail, or leave it out, which means fail here)\n"},
		"no value is repeated": {[]string{"ENRICHER_KAFKA__SASL__PASSWORD=hunter2"}, "ENRICHER_KAFKA__SASL__PASSWORD: kafka.sasl.password: has no effect, kafka.sasl.mechanism is not set (mechanism: SCRAM-SHA-512 or another, or leave it out)\n"},
		"several, sorted": {
			[]string{"ENRICHER_STORE__MEMORY=1", "ENRICHER_LOG__LEVEL=x"},
			"ENRICHER_LOG__LEVEL: log.level: \"x\" is not one of the values (debug | info | warn | error)\nENRICHER_STORE__MEMORY: store.memory: 1 has no unit (1MiB, or 1B for bytes)\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.want, refused(t, minimal, tt.environ...))
		})
	}
}

// Problems of the file come first, in its order.
func TestProblemsOfBothLayers(t *testing.T) {
	assert.Equal(t,
		"f.yaml:5: log.level: \"x\" is not one of the values (debug | info | warn | error)\n"+
			"ENRICHER_LOG__FORMAT: log.format: \"y\" is not one of the values (auto | text | json)\n",
		refused(t, minimal+"log: {level: x}", "ENRICHER_LOG__FORMAT=y", "ENRICHER_LOG__LEVEL=info"))
}
