package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// stampedVersion and stampedCommit are what the linker was told by -X, for a build without version control, such as that of the image. Nothing else sets them.
var stampedVersion, stampedCommit string //nolint:gochecknoglobals // -X needs variables of the package

// versionInfo is what the build says of itself.
type versionInfo struct {
	Version string `json:"version"` // of the module; "(devel)" for a build from a working tree without version control
	Commit  string `json:"commit"`  // with "+dirty" when the tree had changes; "unknown" without version control
	Go      string `json:"go"`
}

// buildVersion reads what the linker wrote into the binary.
func buildVersion() versionInfo {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versionInfo{"unknown", "unknown", runtime.Version()}
	}
	return versionOf(info).stamped(stampedVersion, stampedCommit)
}

// stamped gives the version with what the linker was told in place of what the build found out by itself.
func (v versionInfo) stamped(version, commit string) versionInfo {
	if version != "" {
		v.Version = version
	}
	if commit != "" {
		v.Commit = commit
	}
	return v
}

func versionOf(info *debug.BuildInfo) versionInfo {
	v := versionInfo{info.Main.Version, "unknown", info.GoVersion}
	if v.Version == "" {
		v.Version = "(devel)"
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty {
		v.Commit += "+dirty"
	}
	return v
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the module version, the commit and the Go version",
		Example: "  enricher version",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := buildVersion()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "enricher %s\ncommit   %s\ngo       %s\n", v.Version, v.Commit, v.Go)
			return err
		},
	}
}
