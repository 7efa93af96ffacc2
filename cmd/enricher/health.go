package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"enricher/admin"
	"enricher/config"
)

// healthTimeout is how long the running instance may take to answer; a probe that hangs is as bad as an instance that is not there.
const healthTimeout = 5 * time.Second

func healthCommand(environ []string) *cobra.Command {
	var file string
	var live bool
	cmd := &cobra.Command{
		Use:   "health -c FILE",
		Short: "Ask the running instance whether it is ready (or alive)",
		Long: `Health asks the instance that runs with this configuration on this machine, at admin.listen, for /readyz (with --live for /livez). It exits 0 when the
answer is yes, else 1, with the reasons on stderr.`,
		Example: `  enricher health -c enricher.yaml
  enricher health -c enricher.yaml --live`,
		Args: cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command) error {
			cfg, err := config.Load(file, environ)
			if err != nil {
				return err
			}
			path := "/readyz"
			if live {
				path = "/livez"
			}
			return health(cmd.Context(), cfg.Admin.Listen, path, cmd.OutOrStdout())
		}),
	}
	configFlag(cmd, &file)
	cmd.Flags().BoolVar(&live, "live", false, "ask whether the process works, ready or not")
	return cmd
}

// health asks the instance that listens at this address.
func health(ctx context.Context, listen, path string, stdout io.Writer) error {
	address, err := dialAddress(listen)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", address, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without the proxies of the environment
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no answer from the instance: %w: is it running with this configuration?", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", address, err)
	}
	if resp.StatusCode == http.StatusOK {
		_, err = fmt.Fprintln(stdout, strings.TrimPrefix(path, "/")+": yes")
		return err
	}
	return fmt.Errorf("%s%s: %s", address, path, refusal(resp.StatusCode, body))
}

// refusal says in one line why the answer is no.
func refusal(code int, body []byte) string {
	var answer struct{ Reasons []admin.Reason }
	if json.Unmarshal(body, &answer) != nil || len(answer.Reasons) == 0 {
		return fmt.Sprintf("answer %d, not one of enricher: does something else listen there?", code)
	}
	reasons := make([]string, len(answer.Reasons))
	for i, r := range answer.Reasons {
		reasons[i] = r.Reason + ": " + r.Detail
	}
	return "not ready: " + strings.Join(reasons, "; ")
}

// dialAddress turns an address to listen on into one to connect to from the same machine.
func dialAddress(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("admin.listen: %w", err)
	}
	if port == "0" {
		return "", fmt.Errorf("admin.listen is %s, a free port that only the running instance knows: set a fixed one", listen)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return net.JoinHostPort(host, port), nil
}
