package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// completionCommand prints cobra's completion script of a shell. cobra's own command of this name answers a shell that it does not know with exit code 0.
func completionCommand() *cobra.Command {
	scripts := map[string]func(root *cobra.Command, w io.Writer) error{
		"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		"zsh":        (*cobra.Command).GenZshCompletion,
		"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
	}
	shells := slices.Sorted(maps.Keys(scripts))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print the completion script of a shell: " + strings.Join(shells, ", "),
		Example: `  source <(enricher completion bash)
  enricher completion zsh > "${fpath[1]}/_enricher"
  enricher completion fish > ~/.config/fish/completions/enricher.fish`,
		ValidArgs: shells,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := scripts[args[0]](cmd.Root(), cmd.OutOrStdout()); err != nil {
				return &failure{err: fmt.Errorf("write the completion script: %w", err)}
			}
			return nil
		},
	}
}
