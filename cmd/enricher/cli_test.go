package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with testdata/NAME.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

// call runs the program in this process.
func call(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, args, nil, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func TestExitCodesAndLastLines(t *testing.T) {
	broken := writeFile(t, "broken.yaml", "kafka: {}\n")
	fine := writeFile(t, "fine.yaml", minimal("localhost:9092", ""))
	cases := map[string]struct {
		args string
		code int
		last string // of stderr
	}{
		"no command":         {"", 2, "enricher: a command is missing: see 'enricher --help'"},
		"unknown command":    {"rnu", 2, `enricher: unknown command "rnu" for "enricher": see 'enricher --help'`},
		"unknown flag":       {"run --fast", 2, "enricher: unknown flag: --fast: see 'enricher run --help'"},
		"flag without value": {"run -c", 2, "enricher: flag needs an argument: 'c' in -c: see 'enricher run --help'"},
		"no file":            {"run", 2, `enricher: required flag(s) "config" not set: see 'enricher run --help'`},
		"validate, no file":  {"validate", 2, `enricher: required flag(s) "config" not set: see 'enricher validate --help'`},
		"too many arguments": {"validate -c x y", 2, `enricher: unknown command "y" for "enricher validate": see 'enricher validate --help'`},
		"absent file":        {"run -c /absent", 2, "enricher: the configuration has 1 problem; mend what the lines above say"},
		"broken file":        {"run -c " + broken, 2, ""},
		"health, broken":     {"health -c " + broken, 2, ""},
		"fine file":          {"validate -c " + fine, 0, ""},
		"version":            {"version", 0, ""},
		"completion":         {"completion bash", 0, ""},
		"completion, none":   {"completion", 2, "enricher: accepts 1 arg(s), received 0: see 'enricher completion --help'"},
		"completion, other":  {"completion nu", 2, `enricher: invalid argument "nu" for "enricher completion": see 'enricher completion --help'`},
		"not built":          {"explain", 2, `enricher: unknown command "explain" for "enricher": see 'enricher --help'`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t.Context(), strings.Fields(c.args)...)
			assert.Equal(t, c.code, code, stderr)
			if c.last != "" {
				lines := strings.Split(strings.TrimSpace(stderr), "\n")
				assert.Equal(t, c.last, lines[len(lines)-1])
			}
			if c.code != 0 {
				assert.Empty(t, stdout)
			} else {
				assert.Empty(t, stderr)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	_, stdout, _ := call(t.Context(), "--help")
	golden(t, "help.golden", stdout)
	for _, cmd := range rootCommand(nil).Commands() {
		t.Run(cmd.Name(), func(t *testing.T) {
			assert.NotEmpty(t, cmd.Example)
			assert.Contains(t, cmd.Example, "enricher "+cmd.Name())
			code, stdout, stderr := call(t.Context(), cmd.Name(), "--help")
			assert.Equal(t, exitDone, code)
			assert.Empty(t, stderr)
			assert.Contains(t, stdout, cmd.Example)
		})
	}
}

func TestEveryExampleIsValidUsage(t *testing.T) {
	root := rootCommand(nil)
	for _, cmd := range append(root.Commands(), root) {
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			words := strings.Fields(regexp.MustCompile(`^.*?enricher |[)>].*| {3}.*`).ReplaceAllString(strings.TrimSpace(line), ""))
			found, rest, err := root.Find(words)
			require.NoError(t, err, line)
			require.NotEqual(t, root, found, line)
			require.NoError(t, found.ParseFlags(rest), line)
			require.NoError(t, cobra.Command{Args: found.Args, ValidArgs: found.ValidArgs}.Args(found, found.Flags().Args()), line)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		code, stdout, _ := call(t.Context(), "completion", shell)
		assert.Equal(t, exitDone, code)
		assert.Contains(t, stdout, "__enricher_debug", shell)
	}
}

func TestVersion(t *testing.T) {
	code, stdout, _ := call(t.Context(), "version")
	assert.Equal(t, exitDone, code)
	assert.Regexp(t, `^enricher \S+\ncommit   \S+\ngo       go1\.\S+.*\n$`, stdout)
}

func TestVersionOfABuild(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.modified", Value: "false"},
	}}
	assert.Equal(t, versionInfo{"v1.2.3", "abc", "go1.26.8"}, versionOf(info))
	info.Settings[1].Value = "true"
	assert.Equal(t, versionInfo{"v1.2.3", "abc+dirty", "go1.26.8"}, versionOf(info))
	assert.Equal(t, versionInfo{"(devel)", "unknown", "go1.26.8"}, versionOf(&debug.BuildInfo{GoVersion: "go1.26.8"}))
	found := versionInfo{"(devel)", "unknown", "go1.26.8"}
	assert.Equal(t, versionInfo{"v1.2.3", "abc", "go1.26.8"}, found.stamped("v1.2.3", "abc"), "the linker's word counts")
	assert.Equal(t, found, found.stamped("", ""))
}

func TestValidatePrintsEveryProblem(t *testing.T) {
	file := filepath.Join("testdata", "problems.yaml")
	code, stdout, stderr := call(t.Context(), "validate", "-c", file)
	assert.Equal(t, exitUsage, code)
	assert.Empty(t, stdout)
	golden(t, "problems.golden", stderr)
}

func TestValidatePrintsProblemsOfTheLookups(t *testing.T) {
	file := filepath.Join("testdata", "lookups.yaml")
	code, stdout, stderr := call(t.Context(), "validate", "-c", file)
	assert.Equal(t, exitUsage, code)
	assert.Empty(t, stdout)
	golden(t, "lookups.golden", stderr)
}

func TestRunRefusesWhatValidateRefuses(t *testing.T) {
	for _, name := range []string{"problems", "lookups"} {
		file := filepath.Join("testdata", name+".yaml")
		_, _, want := call(t.Context(), "validate", "-c", file)
		code, _, stderr := call(t.Context(), "run", "-c", file)
		assert.Equal(t, exitUsage, code)
		assert.Equal(t, want, stderr)
	}
}

func TestValidateSaysWhatTheFileDoes(t *testing.T) {
	file := filepath.Join("testdata", "fine.yaml")
	code, stdout, stderr := call(t.Context(), "validate", "-c", file)
	assert.Equal(t, exitDone, code)
	assert.Empty(t, stderr)
	golden(t, "fine.golden", stdout)
}

func TestTheEnvironmentOverridesTheFile(t *testing.T) {
	var out, errs bytes.Buffer
	file := filepath.Join("testdata", "fine.yaml")
	code := run(t.Context(), []string{"validate", "-c", file}, []string{"ENRICHER_OUTPUT__TOPIC=elsewhere", "ENRICHER_PORT=tcp://10.0.0.1:80"}, nil, &out, &errs)
	assert.Equal(t, exitDone, code, errs.String())
	assert.Contains(t, out.String(), "→ elsewhere,")
}

func TestOneLine(t *testing.T) {
	assert.Equal(t, "a; b; c", oneLine(errors.Join(errors.New("a\n\n\tb"), errors.New("c"))))
}

func TestHealth(t *testing.T) {
	answer := func(code int, body string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/livez" {
				_, _ = w.Write([]byte(`{"live":true}`))
				return
			}
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(srv.Close)
		return srv.Listener.Addr().String()
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	cases := map[string]struct {
		listen, flag   string
		code           int
		stdout, stderr string
	}{
		"ready":         {answer(200, `{"ready":true}`), "", 0, "readyz: yes\n", ""},
		"alive":         {answer(503, ``), "--live", 0, "livez: yes\n", ""},
		"not ready":     {answer(503, `{"reasons":[{"reason":"warming_up","detail":"customer: 4 %"}]}`), "", 1, "", "/readyz: not ready: warming_up: customer: 4 %\n"},
		"someone else":  {answer(200+204, `hello`), "", 1, "", "answer 404, not one of enricher: does something else listen there?\n"},
		"nobody":        {gone.Listener.Addr().String(), "", 1, "", "is it running with this configuration?\n"},
		"unknown port":  {"127.0.0.1:0", "", 1, "", "set a fixed one\n"},
		"all addresses": {"0.0.0.0:" + port(t, answer(200, ``)), "", 0, "readyz: yes\n", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			args := []string{"health", "-c", writeFile(t, "c.yaml", minimal("localhost:9092", `admin: {listen: "`+c.listen+`"}`))}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			code, stdout, stderr := call(t.Context(), args...)
			assert.Equal(t, c.code, code, stderr)
			assert.Equal(t, c.stdout, stdout)
			assert.True(t, strings.HasSuffix(stderr, c.stderr), stderr)
		})
	}
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	return port
}

func TestDialAddress(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "0.0.0.0:1": "127.0.0.1:1", "[::]:2": "[::1]:2", "example.org:3": "example.org:3", "[::1]:4": "[::1]:4",
	} {
		got, err := dialAddress(listen)
		require.NoError(t, err)
		assert.Equal(t, want, got)
	}
}
