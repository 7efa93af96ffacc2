package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxPassword bounds a password file; it also keeps a wrong path, to a device, from
// being read for ever.
const maxPassword = 64 << 10

// check holds the keys against each other.
func (l *loader) check(c *Config) {
	l.checkTLS(&c.Kafka.TLS)
	l.checkSASL(&c.Kafka.SASL)
	l.checkDimensions(c)
	l.checkLookups(c)
	l.checkTopics(c)
	l.checkProcessing(&c.Processing)
	l.checkStaleness(c)
	l.checkOnError(c)
	l.checkAdmin(&c.Admin)
}

func (l *loader) checkTLS(t *TLS) {
	const at = "kafka.tls"
	if !l.ok(at + ".enabled") {
		return
	}
	if !t.Enabled {
		l.noEffect(at, "the connection is not encrypted", "enabled: true, or leave it out", []keySet{
			{"ca_file", t.CAFile != ""},
			{"cert_file", t.CertFile != ""},
			{"key_file", t.KeyFile != ""},
			{"server_name", t.ServerName != ""},
			{"insecure_skip_verify", t.InsecureSkipVerify},
		})
	}
	l.together(at, "cert_file", t.CertFile, "key_file", t.KeyFile)
	l.readable(at+".ca_file", t.CAFile)
	l.readable(at+".cert_file", t.CertFile)
	l.readable(at+".key_file", t.KeyFile)
}

// keySet is a key of a section and whether it has a value.
type keySet struct {
	key string
	set bool
}

// noEffect refuses keys that would be ignored: who wrote them believes otherwise.
func (l *loader) noEffect(section, why, right string, keys []keySet) {
	for _, k := range keys {
		if path := join(section, k.key); k.set && l.ok(path) {
			l.fail(path, "has no effect, "+why, right)
		}
	}
}

// together asks for both keys or none.
func (l *loader) together(section, a, aValue, b, bValue string) {
	if !l.ok(join(section, a)) || !l.ok(join(section, b)) {
		return
	}
	if aValue != "" && bValue == "" {
		l.fail(join(section, a), "is set without "+b, "both, or none")
	}
	if bValue != "" && aValue == "" {
		l.fail(join(section, b), "is set without "+a, "both, or none")
	}
}

// readable asks for a file that can be opened.
func (l *loader) readable(path, file string) {
	if file == "" || !l.ok(path) {
		return
	}
	f, err := openFile(file)
	if err != nil {
		l.fail(path, quote(file)+" can't be read: "+err.Error(), "a file that this user may read")
		return
	}
	_ = f.Close()
}

func (l *loader) checkSASL(s *SASL) {
	const at = "kafka.sasl"
	l.readPassword(s)
	if !l.ok(at + ".mechanism") {
		return
	}
	switch {
	case s.Mechanism == "":
		l.noEffect(at, "kafka.sasl.mechanism is not set", "mechanism: SCRAM-SHA-512 or another, or leave it out", []keySet{
			{"username", s.Username != ""},
			{"password", s.Password != "" && s.PasswordFile == ""},
			{"password_file", s.PasswordFile != ""},
			{"token_file", s.TokenFile != ""},
		})
	case s.Mechanism == "PLAIN" || strings.HasPrefix(s.Mechanism, "SCRAM-"):
		if s.Username == "" && l.ok(at+".username") {
			l.fail(at+".username", "is required by "+s.Mechanism+" and missing", "username: NAME")
		}
		if s.Password == "" && l.ok(at+".password") && l.ok(at+".password_file") {
			l.fail(at+".password", "is required by "+s.Mechanism+" and missing", "password or password_file")
		}
	case s.Mechanism == "OAUTHBEARER" && s.TokenFile == "" && l.ok(at+".token_file"):
		l.fail(at+".token_file", "is required by OAUTHBEARER and missing", "token_file: PATH")
	}
	l.readable(at+".token_file", s.TokenFile)
}

// readPassword puts the content of the password file in the password's place.
func (l *loader) readPassword(s *SASL) {
	const at = "kafka.sasl.password_file"
	switch {
	case s.PasswordFile == "" || !l.ok(at) || !l.ok("kafka.sasl.password"):
		return
	case s.Password != "":
		l.fail(at, "is set beside kafka.sasl.password", "one of the two")
		return
	}
	data, err := readFile(s.PasswordFile, maxPassword)
	if err != nil {
		l.fail(at, quote(s.PasswordFile)+" can't be read: "+err.Error(), "a file that this user may read")
		return
	}
	password := strings.TrimRight(string(data), "\r\n")
	if password == "" {
		l.fail(at, quote(s.PasswordFile)+" is empty", "a file that holds the password")
		return
	}
	s.Password = Secret(password)
}

// checkTopics keeps what is written apart from what is read: an output that is
// also an input is a loop.
func (l *loader) checkTopics(c *Config) {
	for _, out := range []struct{ path, topic string }{{"output.topic", c.Output.Topic}, {"dead_letter.topic", c.DeadLetter.Topic}} {
		if out.topic == "" || !l.ok(out.path) {
			continue
		}
		if i := slices.Index(c.Input.Topics, out.topic); i >= 0 {
			l.fail(out.path, quote(out.topic)+" is also an input topic", "a topic other than "+indexed("input.topics", i))
		}
		for i, d := range c.Dimensions {
			at := indexed("dimensions", i)
			if d.Topic == out.topic {
				l.fail(out.path, quote(out.topic)+" is also the topic of a dimension", "a topic other than "+at+".topic")
				break
			}
			if l.ok(at+".topic_pattern") && wholeMatch(d.TopicPattern, out.topic) {
				l.fail(out.path, quote(out.topic)+" matches the topic pattern of a dimension", "a topic that "+at+".topic_pattern does not match")
				break
			}
		}
	}
	if c.DeadLetter.Topic != "" && c.DeadLetter.Topic == c.Output.Topic && l.ok("dead_letter.topic") && l.ok("output.topic") {
		l.fail("dead_letter.topic", quote(c.DeadLetter.Topic)+" is also the output topic", "a topic other than output.topic")
	}
}

// wholeMatch tells whether a topic belongs to a pattern, which means whole names.
func wholeMatch(pattern, topic string) bool {
	if pattern == "" {
		return false
	}
	re, err := regexp.Compile("^(?:" + pattern + ")$")
	return err == nil && re.MatchString(topic)
}

func (l *loader) checkProcessing(p *Processing) {
	const at = "processing.transaction_timeout"
	if l.ok(at) && l.ok("processing.commit_interval") && p.TransactionTimeout/3 < p.CommitInterval {
		path := at
		if !l.written(at) {
			path = "processing.commit_interval"
		}
		l.fail(path, fmt.Sprintf("transaction_timeout %s is less than 3 × commit_interval %s", p.TransactionTimeout, p.CommitInterval),
			"transaction_timeout of "+threeTimes(p.CommitInterval)+" or more, or a shorter commit_interval")
	}
}

// idleRefresh is how often a dimension is refreshed that no fact asks for, when each
// batch has a refresh of its own (interval 0s).
const idleRefresh = 10 * time.Second

// checkStaleness refuses a limit that a dimension exceeds whenever no fact comes for
// a while: with fail, the next fact would end the service, and nothing is wrong.
func (l *loader) checkStaleness(c *Config) {
	const at = "processing.max_staleness"
	limit := c.Processing.MaxStaleness
	if limit == 0 || c.Processing.OnStale != "fail" || !l.ok(at) || !l.ok("processing.on_stale") {
		return
	}
	for i, d := range c.Dimensions {
		path := indexed("dimensions", i) + ".refresh"
		every := cmp.Or(d.Refresh.Interval, idleRefresh)
		if l.ok(path) && l.ok(path+".interval") && limit/2 < every {
			l.fail(at, fmt.Sprintf("%s is less than 2 × %s, how often %s.interval has %s looked after without facts", limit, every, path, quote(d.Name)),
				"a longer max_staleness, a shorter refresh.interval, or on_stale: hold")
			return
		}
	}
}

// threeTimes is for a message: the product may not fit a duration.
func threeTimes(d time.Duration) string {
	if d > time.Duration(1<<63-1)/3 {
		return "3 × " + d.String()
	}
	return (3 * d).String()
}

// checkOnError refuses dead letters that are asked for and have nowhere to go. Left
// out, on_error then means fail.
func (l *loader) checkOnError(c *Config) {
	if c.DeadLetter.Topic != "" || !l.ok("dead_letter.topic") {
		return
	}
	paths := []string{"input.on_error"}
	values := []string{c.Input.OnError}
	for i, d := range c.Dimensions {
		paths, values = append(paths, indexed("dimensions", i)+".on_error"), append(values, d.OnError)
	}
	for i, path := range paths {
		if values[i] == OnErrorDeadLetter && l.written(path) && l.ok(path) {
			l.fail(path, "dead_letter is written, but dead_letter.topic is not set", "dead_letter.topic: NAME, or on_error: fail, or leave it out, which means fail here")
		}
	}
}

func (l *loader) checkAdmin(a *Admin) {
	l.together("admin.tls", "cert_file", a.TLS.CertFile, "key_file", a.TLS.KeyFile)
	l.readable("admin.tls.cert_file", a.TLS.CertFile)
	l.readable("admin.tls.key_file", a.TLS.KeyFile)
	l.readable("admin.token_file", a.TokenFile)
}
