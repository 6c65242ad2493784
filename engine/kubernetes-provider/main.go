// Command pulumi-resource-kubernetes is Pulumi's own Kubernetes provider.
//
// The provider's published main needs two generated files that its module does not carry; they are copies of files
// that it does carry, so the build copies them beside this one (see engine/builder/construct.py).
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

// providerVersion is the version of the Python SDK that this build serves.
const providerVersion = "4.34.2"

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

func main() {
	provider.Serve("kubernetes", providerVersion, schema, terraformMapping)
}
