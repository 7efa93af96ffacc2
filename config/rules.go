package config

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// checkText holds a text against the rule of its key and says what is wrong and
// what would be right. The text is not empty.
func checkText(rule, text string) (what, right string) {
	switch rule {
	case "topic":
		return checkName(text, "a topic name", maxTopic)
	case "instance":
		return checkName(text, "an instance id", maxTopic)
	case "dimension":
		return checkDimensionName(text)
	case "group":
		return checkGroup(text)
	case "address":
		return checkAddress(text, false)
	case "listen":
		return checkAddress(text, true)
	case "version":
		return checkVersion(text)
	case "pattern":
		return checkPattern(text)
	case "zone":
		if _, err := time.LoadLocation(text); err != nil || text == "Local" {
			return quote(text) + " is not a time zone", "a name such as UTC or Europe/Berlin"
		}
	case "folder":
		if strings.ContainsRune(text, 0) {
			return quote(text) + " is not a path", "such as ./enricher-data"
		}
	case "text":
		return checkPrintable(text)
	}
	return "", ""
}

// maxTopic is Kafka's longest topic name; static member ids obey the same rule
// (org.apache.kafka.common.internals.Topic.validate).
const maxTopic = 249

// legalName has the characters of a Kafka topic, which are safe in paths too.
var legalName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func checkName(text, kind string, longest int) (what, right string) {
	switch {
	case text == "." || text == "..":
		return quote(text) + " is not " + kind, "any other name"
	case !legalName.MatchString(text):
		return quote(text) + " is not " + kind, "letters A-Z a-z, digits, . _ and -"
	case len(text) > longest:
		return quote(text) + " has " + strconv.Itoa(len(text)) + " characters", "at most " + strconv.Itoa(longest)
	}
	return "", ""
}

// checkDimensionName keeps the name usable as a folder beside the other things in
// the store directory, as a part of a URL and as a metric label.
func checkDimensionName(text string) (what, right string) {
	const longest = 100
	if what, right = checkName(text, "a dimension name", longest); what != "" {
		return what, right
	}
	if strings.ContainsAny(text[:1], ".-") || strings.HasSuffix(text, ".") {
		return quote(text) + " can't be the name of a folder", "a name that begins with a letter, a digit or _ and does not end in a dot"
	}
	switch strings.ToLower(text) {
	case "instance", "lock":
		return quote(text) + " is the name of a file in store.dir", "any other name"
	}
	return "", ""
}

// checkGroup refuses what would only confuse: brokers take any text as a group,
// but tools and the transactional ids made of it do not.
func checkGroup(text string) (what, right string) {
	const longest = 200 // with the instance id behind it, still a legal transactional id
	switch {
	case strings.TrimSpace(text) != text:
		return quote(text) + " begins or ends with a space", quote(strings.TrimSpace(text))
	case len(text) > longest:
		return quote(text) + " has " + strconv.Itoa(len(text)) + " bytes", "at most " + strconv.Itoa(longest)
	}
	return checkPrintable(text)
}

func checkPrintable(text string) (what, right string) {
	if strings.IndexFunc(text, unicode.IsControl) >= 0 {
		return quote(text) + " has a control character", "printable characters"
	}
	return "", ""
}

// checkAddress takes host:port. To listen, the host may be missing and the port 0.
func checkAddress(text string, listen bool) (what, right string) {
	example := "host:port, such as localhost:9092"
	if listen {
		example = "host:port, such as 127.0.0.1:8080 or :8080"
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		if isHost(text) && !listen {
			return quote(text) + " has no port", net.JoinHostPort(text, "9092")
		}
		return quote(text) + " is not an address", example
	}
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil || n == 0 && !listen || !integer(port):
		return quote(text) + " has no legal port", example
	case host == "" && listen:
		return "", ""
	case !isHost(host):
		return quote(text) + " has no legal host", example
	}
	return "", ""
}

// isHost takes names and addresses without looking them up.
func isHost(text string) bool {
	address, _, _ := strings.Cut(text, "%")
	return net.ParseIP(address) != nil || legalName.MatchString(text)
}

func checkVersion(text string) (what, right string) {
	column, ok := strings.CutPrefix(text, "column:")
	if text == "offset" || text == "timestamp" || ok && column != "" {
		return "", ""
	}
	right = "offset | timestamp | column:NAME"
	if near := nearest(text, []string{"offset", "timestamp"}); near != "" {
		right = "did you mean " + near + "? " + right
	}
	return quote(text) + " is not a version", right
}

func checkPattern(text string) (what, right string) {
	if _, err := regexp.Compile(text); err != nil {
		return "is not a regular expression: " + strings.TrimPrefix(err.Error(), "error parsing regexp: "), `RE2, such as customer_(?P<dt>\d{4})`
	}
	return "", ""
}
