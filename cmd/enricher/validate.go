package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"enricher/config"
	"enricher/lookup"
)

func validateCommand(environ []string) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "validate -c FILE",
		Short: "Check the configuration without connecting to anything",
		Long: `Validate checks the file, the environment variables that override it, the files that it names and the lookups, and prints every problem as
FILE:LINE: path.to.key: what is wrong (what would be right). It exits 2 when there is one.`,
		Example: `  enricher validate -c enricher.yaml`,
		Args:    cobra.NoArgs,
		RunE: action(func(cmd *cobra.Command) error {
			return validate(file, environ, cmd.OutOrStdout(), cmd.ErrOrStderr())
		}),
	}
	configFlag(cmd, &file)
	return cmd
}

func validate(file string, environ []string, stdout, stderr io.Writer) error {
	cfg, err := config.Load(file, environ)
	if err != nil {
		return err
	}
	plan, err := checkConfig(cfg)
	if err != nil {
		return err
	}
	for _, w := range plan.Lookup.Warnings() {
		fmt.Fprintf(stderr, "%s: %s: warning: %s\n", cfg.Locate(w.Path), w.Path, w.Message)
	}
	_, err = io.WriteString(stdout, summary(file, cfg, plan.Lookup.Describe()))
	return err
}

// checkConfig finds what can only be found once the parts read their share of the configuration.
func checkConfig(cfg *config.Config) (servicePlan, error) {
	plan, err := newPlan(cfg, nil)
	_, problems := clientOptions(cfg, slog.New(slog.DiscardHandler))
	return plan, joinInvalid(err, problems)
}

// summary says in a few lines what the configuration does.
func summary(file string, cfg *config.Config, steps []lookup.StepInfo) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is fine: %s → %s, %s, %s\n", file, strings.Join(cfg.Input.Topics, ", "), cfg.Output.Topic,
		count(len(cfg.Dimensions), "dimension"), count(len(cfg.Lookups), "lookup"))
	for i, s := range steps {
		var on, adds []string
		for _, c := range s.On {
			on = append(on, c.Column+" = "+c.Value)
		}
		for _, f := range s.Fields {
			adds = append(adds, f.Field)
		}
		added := or(strings.Join(adds, ", "), "nothing")
		if s.Into != "" {
			added = s.Into + " {" + added + "}"
		}
		fmt.Fprintf(&b, "  %d. %s by %s (%s), %s: adds %s\n", i+1, s.Dimension, s.Kind, strings.Join(on, ", "), s.Join, added)
	}
	return b.String()
}
