package chart

import (
	"crypto/x509"
	"encoding/pem"
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

const chartDir = "../enricher"

var update = flag.Bool("update", false, "write the golden files anew")

// cases are the names of the files in testdata/cases.
func cases(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return files
}

// valuesOf are the values of a case, with the common configuration where it has none.
func valuesOf(t *testing.T, name string) chartutil.Values {
	t.Helper()
	values, err := chartutil.ReadValuesFile(filepath.Join("testdata/cases", name+".yaml"))
	require.NoError(t, err)
	if values["config"] == nil {
		config, err := os.ReadFile("testdata/enricher.yaml")
		require.NoError(t, err)
		values["config"] = string(config)
	}
	return values
}

// render renders the chart into documents by the name of their template and their place in it.
func render(values chartutil.Values) (map[string]string, error) {
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	options := chartutil.ReleaseOptions{Name: "orders", Namespace: "shop", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// documents are the rendered documents, the templates in the order of their names.
func documents(t *testing.T, name string) []string {
	t.Helper()
	rendered, err := render(valuesOf(t, name))
	require.NoError(t, err)
	var all []string
	for _, template := range slices.Sorted(maps.Keys(rendered)) {
		if filepath.Ext(template) != ".yaml" {
			continue
		}
		parts := releaseutil.SplitManifests(rendered[template])
		for i := range len(parts) {
			all = append(all, strings.TrimSpace(parts["manifest-"+strconv.Itoa(i)]))
		}
	}
	return all
}

// decode reads a document as Kubernetes would, and refuses fields and types that it does not know. A custom resource gives nil.
func decode(t *testing.T, document string) runtime.Object {
	t.Helper()
	if strings.Contains(document, "apiVersion: monitoring.coreos.com/") {
		return nil
	}
	s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := s.Decode([]byte(document), nil, nil)
	require.NoError(t, err, document)
	return object
}

func TestGolden(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(documents(t, name), "\n---\n") + "\n"
			file := filepath.Join("testdata/golden", name+".yaml")
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			assert.Equal(t, string(want), got, "go test ./... -update writes it anew")
		})
	}
}

func TestLintStrict(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, m := range lint.All(chartDir, valuesOf(t, name), "shop", true).Messages {
				if strings.Contains(m.Error(), "icon is recommended") { // severity info
					continue
				}
				t.Error(m)
			}
		})
	}
}

func TestKubernetesTakesIt(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			for _, document := range documents(t, name) {
				decode(t, document)
			}
		})
	}
	t.Run("a wrong field is found", func(t *testing.T) {
		s := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
		_, _, err := s.Decode([]byte("apiVersion: v1\nkind: Service\nspec: {port: 1}\n"), nil, nil)
		require.ErrorContains(t, err, `unknown field "spec.port"`)
	})
}

// pod gives the pod template of a case and its configuration file.
func pod(t *testing.T, name string) (spec corev1.PodSpec, config string) {
	t.Helper()
	for _, document := range documents(t, name) {
		switch o := decode(t, document).(type) {
		case *appsv1.Deployment:
			spec = o.Spec.Template.Spec
		case *appsv1.StatefulSet:
			spec = o.Spec.Template.Spec
		case *corev1.ConfigMap:
			if text, ok := o.Data["enricher.yaml"]; ok {
				config = text
			}
		}
	}
	require.Len(t, spec.Containers, 1)
	assert.Equal(t, strings.TrimSpace(valuesOf(t, name)["config"].(string)), strings.TrimSpace(config), "the file stays as it was written")
	return spec, config
}

// certificateAndKey is a PEM file that can be read as a certificate, as its key, and as any password.
func certificateAndKey(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	require.NoError(t, err)
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
}

// TestEnricherTakesTheConfiguration runs `enricher validate` on the rendered file, with the container's environment and files in place of its secrets.
func TestEnricherTakesTheConfiguration(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "enricher")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", binary, "./cmd/enricher")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	secret := certificateAndKey(t)
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			spec, config := pod(t, name)
			dir := t.TempDir()
			inDir := func(path string) string { // a file of the pod, put into dir with something in it
				path = filepath.Join(dir, path)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, secret, 0o600))
				return path
			}
			file := filepath.Join(dir, "enricher.yaml")
			require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
			validate := exec.CommandContext(t.Context(), binary, "validate", "-c", file)
			for _, v := range spec.Containers[0].Env {
				value := v.Value
				switch {
				case v.ValueFrom != nil:
					value = "of-the-pod"
				case strings.HasSuffix(v.Name, "_FILE"):
					assert.True(t, slices.ContainsFunc(spec.Containers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == filepath.Dir(value) }), v.Name)
					value = inDir(value)
				case v.Name == "ENRICHER_STORE__DIR":
					value = t.TempDir()
				}
				validate.Env = append(validate.Env, v.Name+"="+value)
			}
			out, err := validate.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		values chartutil.Values
		want   string
	}{
		"an unknown value":        {chartutil.Values{"replica": 2}, "replica"},
		"an unknown kind":         {chartutil.Values{"kind": "daemonset"}, "kind"},
		"too little memory":       {chartutil.Values{"config": "a: b", "resources": map[string]any{"memory": "1Gi"}}, "want at least 2141Mi"},
		"a size without a unit":   {chartutil.Values{"store": map[string]any{"memory": "512"}}, "memory"},
		"a grace without a unit":  {chartutil.Values{"config": "processing: {shutdown_grace: 30}"}, "want a duration"},
		"no configuration":        {chartutil.Values{}, "put the configuration file here"},
		"a file that is no YAML":  {chartutil.Values{"config": "a: ["}, "config: "},
		"a privileged port":       {chartutil.Values{"admin": map[string]any{"port": 80}}, "port"},
		"a digest that is no sum": {chartutil.Values{"image": map[string]any{"digest": "latest"}}, "digest"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(c.values)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// TestRestricted holds the pods to the level "restricted" of Kubernetes' pod security standards, and to what enricher needs.
func TestRestricted(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			spec, _ := pod(t, name)
			security, container := spec.SecurityContext, spec.Containers[0].SecurityContext
			assert.True(t, *security.RunAsNonRoot)
			assert.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, security.SeccompProfile.Type)
			assert.EqualValues(t, 65532, *security.FSGroup)
			assert.False(t, *container.AllowPrivilegeEscalation)
			assert.True(t, *container.ReadOnlyRootFilesystem)
			assert.Equal(t, []corev1.Capability{"ALL"}, container.Capabilities.Drop)
			assert.False(t, *spec.EnableServiceLinks, "they would put ENRICHER_* variables into the environment")
			assert.False(t, *spec.AutomountServiceAccountToken)
		})
	}
}

func TestWhatThePodKnows(t *testing.T) {
	grace := func(name string) int64 { spec, _ := pod(t, name); return *spec.TerminationGracePeriodSeconds }
	assert.EqualValues(t, 45, grace("deployment"), "above the default of processing.shutdown_grace")
	assert.EqualValues(t, 105, grace("statefulset"), "above 1m30s")

	named := func(name string) map[string]corev1.EnvVar {
		spec, _ := pod(t, name)
		all := map[string]corev1.EnvVar{}
		for _, v := range spec.Containers[0].Env {
			all[v.Name] = v
		}
		return all
	}
	assert.NotContains(t, named("deployment"), "ENRICHER_INPUT__INSTANCE_ID", "its pods' names never come back")
	assert.Equal(t, "metadata.name", named("statefulset")["ENRICHER_INPUT__INSTANCE_ID"].ValueFrom.FieldRef.FieldPath)
	assert.Equal(t, "768MiB", named("deployment")["GOMEMLIMIT"].Value)
	assert.Equal(t, "2304MiB", named("statefulset")["GOMEMLIMIT"].Value)
	spec, _ := pod(t, "deployment")
	assert.Equal(t, "2141Mi", spec.Containers[0].Resources.Limits.Memory().String(), "512 + 400 + 1.2 x 1024")
}
