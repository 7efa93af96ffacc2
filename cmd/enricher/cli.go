package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"enricher/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1 // at run time
	exitUsage  = 2 // bad configuration or usage
)

// failure is an error of a command that was understood and begun; what cobra finds wrong before that is a matter of usage.
type failure struct {
	err    error
	logged bool // the last line on stderr says it already
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// run is the program: it gives the exit code.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand(environ) //nolint:contextcheck // cobra hands ctx to the command
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	failed, began := errors.AsType[*failure](err)
	if !began {
		fmt.Fprintf(stderr, "enricher: %s: see '%s --help'\n", oneLine(err), cmd.CommandPath())
		return exitUsage
	}
	if invalid, ok := errors.AsType[*config.InvalidError](err); ok {
		printInvalid(stderr, invalid)
		return exitUsage
	}
	if !failed.logged {
		fmt.Fprintf(stderr, "enricher: %s\n", oneLine(err))
	}
	return exitFailed
}

// printInvalid prints all problems of a configuration, each on its line, and what to do.
func printInvalid(w io.Writer, invalid *config.InvalidError) {
	for _, p := range invalid.Problems {
		fmt.Fprintln(w, p)
	}
	fmt.Fprintf(w, "enricher: the configuration has %s; mend what the lines above say\n", count(len(invalid.Problems), "problem"))
}

// count says "1 problem" or "2 problems".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine joins the lines of an error: whoever looks for the last line must find all of it there.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return strings.Join(lines, "; ")
}

func rootCommand(environ []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "enricher",
		Short: "Enrich the records of Kafka topics with the rows of other topics",
		Long: `enricher reads facts from Kafka topics, looks rows up in dimensions (other topics, kept as local tables), adds their columns to the facts and
writes the result to an output topic, each fact's result once.`,
		Example: `  enricher demo                      see it work, with nothing installed
  enricher validate -c enricher.yaml
  enricher run -c enricher.yaml`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			if err := cmd.Help(); err != nil {
				return err
			}
			return errors.New("a command is missing")
		},
	}
	root.AddCommand(serviceCommand(environ), demoCommand(), validateCommand(environ), healthCommand(environ), versionCommand(), completionCommand())
	return root
}

// action marks what fn returns as the error of a command that began.
func action(fn func(cmd *cobra.Command) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		err := fn(cmd)
		if err == nil {
			return nil
		}
		if _, ok := errors.AsType[*failure](err); ok {
			return err
		}
		return &failure{err: err}
	}
}

// configFlag adds -c FILE, which has to be given.
func configFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVarP(file, "config", "c", "", "the configuration `FILE` (required)")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic("BUG: " + err.Error())
	}
}
