package chart

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// alerts are the expressions of the alert rules by name.
func alerts(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(chartDir + "/files/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	all := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			all[r.Alert] = r.Expr
		}
	}
	require.NotEmpty(t, all)
	return all
}

// panels are the expressions of the dashboard by the title of their panel.
func panels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(chartDir + "/files/dashboard.json")
	require.NoError(t, err)
	var file struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	all := map[string][]string{}
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			all[p.Title] = append(all[p.Title], target.Expr)
		}
	}
	require.NotEmpty(t, all)
	return all
}

// series are the names that an expression reads.
func series(t *testing.T, expr string) []string {
	t.Helper()
	parsed, err := parser.ParseExpr(expr)
	require.NoError(t, err, expr)
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			names = append(names, s.Name)
		}
		return nil
	})
	require.NotEmpty(t, names, expr)
	return names
}

// served are the names of the series that the demo serves at /metrics.
func served(t *testing.T) map[string]bool {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "enricher")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", binary, "./cmd/enricher").CombinedOutput()
	require.NoError(t, err, string(out))
	demo := exec.CommandContext(t.Context(), binary, "demo")
	stdout, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	defer func() {
		require.NoError(t, demo.Process.Signal(os.Interrupt))
		_, _ = io.Copy(io.Discard, stdout)
		assert.NoError(t, demo.Wait())
	}()
	address, live := "", false
	lines := bufio.NewScanner(stdout)
	for !live && lines.Scan() { // the sample has missed lookups and a dead letter: once it is through, all series are there
		if found := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(lines.Text()); found != "" {
			address = found
		}
		live = strings.Contains(lines.Text(), "Live traffic")
	}
	require.True(t, live)
	require.NotEmpty(t, address)
	resp, err := http.Get("http://" + address + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	names := map[string]bool{"up": true} // Prometheus' own
	for _, m := range regexp.MustCompile(`(?m)^\w+`).FindAllString(string(body), -1) {
		names[m] = true
	}
	return names
}

func TestEveryMetricIsServed(t *testing.T) {
	names := served(t)
	for alert, expr := range alerts(t) {
		for _, name := range series(t, expr) {
			assert.True(t, names[name], "alert %s reads %s", alert, name)
		}
	}
	for panel, exprs := range panels(t) {
		for _, expr := range exprs {
			for _, name := range series(t, expr) {
				assert.True(t, names[name], "panel %q reads %s", panel, name)
			}
		}
	}
}

func TestEveryAlertIsInTheRunbook(t *testing.T) {
	runbook, err := os.ReadFile("../../../docs/runbook.md")
	require.NoError(t, err)
	for alert := range alerts(t) {
		_, section, found := strings.Cut(string(runbook), "\n## "+alert+"\n")
		require.True(t, found, alert)
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"* **Means:** ", "* **Look at:** ", "* **Do:** "} {
			assert.Contains(t, section, part, alert)
		}
	}
}
