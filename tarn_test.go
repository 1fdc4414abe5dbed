// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package tarn_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tarn-dev/tarn"

// A room is a package or a tree of packages, and what it may import of this module.
type room struct {
	imports []string
	reason  string
}

// rooms holds every package but the examples. An import that is
// not listed here fails the test: either it is not needed, or the table
// gets a line that says why it is, and the map in docs/design.md is written anew.
var rooms = map[string]room{
	"pkg/cache":     {[]string{"pkg/informers", "pkg/reader", "internal/inspected", "internal/live", "internal/metrics", "internal/namespaces", "internal/note", "internal/object", "internal/pending", "internal/projection", "internal/resolver", "internal/scoped", "internal/served", "internal/signal"}, "it puts informers and readers together, finds those that show a write, reads through, has one follower of kinds, and is shown"},
	"pkg/client":    {[]string{"internal/note", "internal/projection", "internal/store"}, "it notes its writes, has the errors of reads, and refuses to write parts of objects"},
	"pkg/inspect":   {[]string{"internal/inspected", "internal/metrics", "internal/object", "internal/store", "pkg/informers", "pkg/reader"}, "it shows informers, and reads through their readers"},
	"pkg/informers": {[]string{"internal/contain", "internal/informer", "internal/inspected", "internal/listwatch", "internal/metrics", "internal/note", "internal/object", "internal/pending", "internal/postings", "internal/projection", "internal/resolver", "internal/served", "internal/store", "internal/watchcache", "pkg/reader", "pkg/index"}, "an entry is an informer and a reader, has metrics, sleeps while its kind is absent, and keeps what was written as the informer would"},
	"pkg/lease":     {[]string{"internal/inspected", "internal/metrics", "internal/note", "internal/scoped", "pkg/informers", "pkg/reader"}, "it makes maps of informers, reads through their readers, follows the writes of a reconcile, shows its requests and counts their wake-ups; a cache and it know each other by their methods"},
	"pkg/reader":    {[]string{"internal/object", "internal/pending", "internal/postings", "internal/store", "internal/watchcache", "pkg/index"}, "it reads stores, and makes objects of what it finds"},
	"pkg/shard":     {[]string{"internal/note", "internal/signal"}, "it knows Leases and keys, whatever is kept by them, fences the writes of work that has lost its key, and wakes goroutines that wait for a change"},
	"pkg/cacher":    {[]string{"pkg/cacher/internal/dispatch", "pkg/cacher/internal/element", "internal/query", "internal/watchcache", "internal/postings", "internal/signal"}, "it is the server's half on the same engine"},
	"pkg/index":     {[]string{"internal/contain", "internal/object", "internal/postings"}, "its functions are the users' own, and their values are in posting lists"},

	"pkg/cacher/internal/dispatch": {[]string{"pkg/cacher/internal/element", "internal/watchcache"}, "watchers follow the history of the engine"},
	"pkg/cacher/internal/element":  {[]string{"internal/object", "internal/postings"}, "an element is an object with its values for indexes"},

	"internal/informer":   {[]string{"internal/contain", "internal/watchcache", "internal/object", "internal/postings", "internal/projection", "internal/relist", "internal/stats", "internal/signal"}, "it keeps objects in an engine, with their index values, retries, hears which ones are not kept any more, and counts events"},
	"internal/inspected":  {[]string{"internal/metrics", "internal/store"}, "it declares what is shown of informers: their figures, and writes that the watch has not shown"},
	"internal/live":       {nil, "it asks the API server for one object"},
	"internal/listwatch":  {[]string{"internal/cover", "internal/ordered", "internal/projection", "internal/relist", "internal/stats", "internal/signal"}, "it decodes on all cores, and hands on what the API server selects and sends, cut to what is kept, and counts it"},
	"internal/metrics":    {[]string{"internal/informer", "internal/listwatch", "internal/live", "internal/stats", "internal/store"}, "it adds up what informers, requests and reads count"},
	"internal/namespaces": {[]string{"internal/inspected", "internal/signal", "pkg/informers"}, "a map of informers watches them, and they are shown"},
	"internal/note":       {nil, "it says what a client knows of a write, whoever is told, and who may refuse it"},
	"internal/pending":    {[]string{"internal/note", "internal/watchcache"}, "what was noted lies over a snapshot"},
	"internal/query":      {[]string{"internal/watchcache", "internal/pending", "internal/postings"}, "a plan reads a snapshot, and what lies over it"},
	"internal/projection": {nil, "it says what is kept of objects, whatever they are"},
	"internal/postings":   {nil, "it keeps strings, whatever they are of"},
	"internal/store":      {[]string{"internal/object", "internal/pending", "internal/postings", "internal/query", "internal/stats", "internal/watchcache"}, "a store is a snapshot with what lies over it and what old pages hold, and counts its reads"},
	"internal/watchcache": {[]string{"internal/postings", "internal/signal"}, "the state of the engine carries indexes"},
	"internal/object":     {[]string{"internal/flat", "internal/flat/dictionary"}, "an object is kept flat or decoded, and a form begins with a new dictionary when the old one is worn"},
	"internal/flat":       {[]string{"internal/flat/decode", "internal/flat/dictionary", "internal/flat/encode", "internal/flat/plan", "internal/flat/wire"}, "the codec joins encoder and decoder of a Go type, and knows nothing of caches"},

	"internal/flat/encode":     {[]string{"internal/flat/decode", "internal/flat/dictionary", "internal/flat/form", "internal/flat/plan", "internal/flat/wire"}, "plans say what to write; an update is copied from the state before"},
	"internal/flat/decode":     {[]string{"internal/flat/dictionary", "internal/flat/form", "internal/flat/plan"}, "plans say what to read"},
	"internal/flat/wire":       {[]string{"internal/flat/plan"}, "the fields of a message are those of a plan"},
	"internal/flat/plan":       {[]string{"internal/flat/form"}, "it knows Go types, and which head their objects have"},
	"internal/flat/form":       {[]string{"internal/flat/dictionary"}, "it is numbers; parts are as large as blocks of the dictionary"},
	"internal/flat/dictionary": {nil, "it keeps strings, whatever they are of"},

	"internal/variable":   {nil, "only tests import it; it knows their variables and the race detector"},
	"internal/specs":      {[]string{"envtest"}, "only tests import it, for the environment that their suites run against"},
	"internal/ordered":    {nil, "it reads watches, whatever they are of"},
	"internal/relist":     {nil, "it ends watches, whatever they are of"},
	"internal/resolver":   {[]string{"internal/contain", "internal/listwatch"}, "it calls a mapper, which may panic, and knows the time-outs of requests"},
	"internal/served":     {[]string{"internal/listwatch", "internal/relist", "internal/resolver"}, "it watches what says which kinds are served, and lists a kind when it is"},
	"internal/cover":      {nil, "it knows hashes of names"},
	"internal/contain":    {nil, "it calls what it is given"},
	"internal/scoped":     {[]string{"internal/inspected", "pkg/informers"}, "leases have maps of informers, and are shown"},
	"internal/signal":     {nil, "it wakes goroutines, whatever has changed"},
	"internal/stats":      {nil, "it counts, whatever is counted"},
	"internal/kubeconfig": {nil, "it writes one file"},
	"internal/program":    {nil, "it is shared by the programs"},

	"envtest":                                        {[]string{"envtest/faults", "envtest/internal/access", "envtest/internal/commandline", "envtest/internal/contents", "envtest/internal/custom", "envtest/internal/etcd", "envtest/internal/flags", "envtest/internal/server", "envtest/internal/serving", "envtest/internal/storagekey", "envtest/internal/stores", "internal/object", "pkg/cacher"}, "the door: it puts a server on an etcd and a listener, as options or a command line say; it can have all flat objects verified"},
	"envtest/controllers":                            {[]string{"envtest", "pkg/cache", "pkg/client"}, "its controllers are operators on the cache, and values for the environment"},
	"envtest/components":                             {[]string{"envtest"}, "its programs are values for the environment"},
	"envtest/nodes":                                  {[]string{"envtest", "pkg/cache", "pkg/client", "internal/signal"}, "its nodes are an operator on the cache, and a value for the environment"},
	"envtest/campaign":                               {[]string{"envtest", "envtest/faults", "internal/served"}, "its runs are environments with faults, which spare the watches of a cache for kinds"},
	"envtest/internal/server":                        {[]string{"envtest/faults", "envtest/internal/access", "envtest/internal/admission", "envtest/internal/aggregation", "envtest/internal/bootstrap", "envtest/internal/builtin", "envtest/internal/builtin/kind", "envtest/internal/builtin/tokens", "envtest/internal/catalog", "envtest/internal/commandline", "envtest/internal/contents", "envtest/internal/custom", "envtest/internal/etcd", "envtest/internal/flags", "envtest/internal/serving", "envtest/internal/stores"}, "it puts all parts together; faults happen in its handlers"},
	"envtest/internal/access":                        {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/tokens", "envtest/internal/flags", "envtest/internal/serving"}, "it makes certificates and tokens, and answers what the built-in kinds ask about users"},
	"envtest/internal/admission":                     {[]string{"envtest/faults", "envtest/internal/builtin", "envtest/internal/builtin/admission", "envtest/internal/flags", "envtest/internal/serving"}, "it orders plugins, also those of the built-in kinds, and faults happen on the way to webhooks"},
	"envtest/internal/aggregation":                   {[]string{"envtest/internal/catalog", "envtest/internal/serving"}, "it asks the server for APIServices, and adds to what that serves"},
	"envtest/internal/bootstrap":                     {[]string{"envtest/internal/builtin/scheduling", "envtest/internal/serving"}, "it creates objects, and waits until they are in force"},
	"envtest/internal/catalog":                       {[]string{"envtest/internal/builtin", "internal/signal"}, "built-in kinds have schemas, and who waits is woken"},
	"envtest/internal/commandline":                   {[]string{"envtest/internal/access", "envtest/internal/builtin", "envtest/internal/builtin/tokens", "envtest/internal/flags", "envtest/internal/serving"}, "flags say who may ask, and which kinds are served"},
	"envtest/internal/contents":                      {[]string{"envtest/internal/catalog", "envtest/internal/custom", "envtest/internal/etcd", "envtest/internal/serving", "envtest/internal/storagekey", "envtest/internal/stores"}, "what is stored is exchanged in the etcd, and stores, informers and discovery follow"},
	"envtest/internal/custom":                        {[]string{"envtest/internal/catalog", "envtest/internal/serving", "envtest/internal/stores", "internal/signal"}, "a definition is served when discovery and its stores say so, and who waits is woken"},
	"envtest/internal/serving":                       {nil, "it listens and asks"},
	"envtest/internal/stores":                        {[]string{"envtest/faults", "envtest/internal/builtin", "envtest/internal/etcd", "envtest/internal/serving", "envtest/internal/storagekey", "pkg/cacher"}, "built-in kinds have a codec, and faults and consistency checks are around a store, whose reads are waited for"},
	"envtest/internal/builtin":                       {[]string{"envtest/internal/builtin/admission", "envtest/internal/builtin/admissionregistration", "envtest/internal/builtin/apiregistration", "envtest/internal/builtin/apps", "envtest/internal/builtin/autoscaling", "envtest/internal/builtin/batch", "envtest/internal/builtin/certificates", "envtest/internal/builtin/connect", "envtest/internal/builtin/coordination", "envtest/internal/builtin/core", "envtest/internal/builtin/discovery", "envtest/internal/builtin/events", "envtest/internal/builtin/flowcontrol", "envtest/internal/builtin/kind", "envtest/internal/builtin/networking", "envtest/internal/builtin/node", "envtest/internal/builtin/policy", "envtest/internal/builtin/rbac", "envtest/internal/builtin/resource", "envtest/internal/builtin/reviews", "envtest/internal/builtin/scheduling", "envtest/internal/builtin/serviceaccount", "envtest/internal/builtin/storage", "envtest/internal/openapi"}, "it puts the rows of all groups into one table, and serves them with their schemas"},
	"envtest/internal/builtin/admission":             {[]string{"envtest/internal/builtin/certificates", "envtest/internal/builtin/core", "envtest/internal/builtin/kind", "envtest/internal/builtin/podspec", "envtest/internal/builtin/scheduling", "envtest/internal/builtin/storage"}, "plugins measure and change what the kinds are"},
	"envtest/internal/builtin/admissionregistration": {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/apiregistration":       {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/apps":                  {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/podspec"}, "it has rows, and Pods in templates"},
	"envtest/internal/builtin/autoscaling":           {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/podspec"}, "it has rows, and Pods in templates"},
	"envtest/internal/builtin/batch":                 {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/podspec"}, "it has rows, and Pods in templates"},
	"envtest/internal/builtin/certificates":          {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/connect":               {[]string{"envtest/internal/builtin/kind"}, "it serves from the stores of a server"},
	"envtest/internal/builtin/coordination":          {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/core":                  {[]string{"envtest/internal/builtin/connect", "envtest/internal/builtin/events", "envtest/internal/builtin/kind", "envtest/internal/builtin/podspec", "envtest/internal/builtin/service", "envtest/internal/builtin/serviceaccount"}, "Pods have a spec and reach into kubelets, and the group has Services and Events too"},
	"envtest/internal/builtin/discovery":             {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/service"}, "its addresses are checked as those of Endpoints"},
	"envtest/internal/builtin/events":                {[]string{"envtest/internal/builtin/kind"}, "it converts between the two forms of Events"},
	"envtest/internal/builtin/flowcontrol":           {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/kind":                  {[]string{"envtest/internal/builtin/tokens"}, "a row knows the keys of its server"},
	"envtest/internal/builtin/kind/kindtest":         {[]string{"envtest/internal/builtin/kind"}, "its tests are of rows"},
	"envtest/internal/builtin/networking":            {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/podspec", "envtest/internal/builtin/service"}, "it has rows, and addresses as Services have them"},
	"envtest/internal/builtin/node":                  {[]string{"envtest/internal/builtin/kind", "envtest/internal/builtin/podspec"}, "it has rows, and Pods in templates"},
	"envtest/internal/builtin/podspec":               {[]string{"envtest/internal/builtin/kind"}, "a Pod's spec is made of shared checks"},
	"envtest/internal/builtin/policy":                {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/rbac":                  {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/resource":              {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/reviews":               {[]string{"envtest/internal/builtin/kind"}, "it has rows that store nothing"},
	"envtest/internal/builtin/scheduling":            {[]string{"envtest/internal/builtin/kind"}, "it has rows"},
	"envtest/internal/builtin/service":               {[]string{"envtest/internal/builtin/connect", "envtest/internal/builtin/kind"}, "a Service reaches into Pods"},
	"envtest/internal/builtin/serviceaccount":        {[]string{"envtest/internal/builtin/kind"}, "accounts are the server's, and get tokens that it signs"},
	"envtest/internal/builtin/storage":               {[]string{"envtest/internal/builtin/core", "envtest/internal/builtin/kind", "envtest/internal/builtin/podspec"}, "volumes are in core"},
	"envtest/internal/builtin/tokens":                {nil, "it signs"},
	"envtest/internal/etcd":                          {nil, "it stands in for a member of etcd"},
	"envtest/internal/flags":                         {[]string{"envtest/internal/storagekey"}, "it reads kube-apiserver's command line, and one default is the root of keys"},
	"envtest/internal/storagekey":                    {nil, "it makes and reads keys, whoever stores"},
	"envtest/internal/openapi":                       {nil, "it is generated"},

	"envtest/faults":                          {[]string{"envtest/internal/storagekey", "internal/signal"}, "keys name the object of a call, and who waits for a hit is woken"},
	"envtest/kubebuilder":                     {[]string{"envtest"}, "it is a door to the environment"},
	"envtest/cmd/apiserver":                   {[]string{"envtest", "envtest/components", "envtest/controllers", "envtest/nodes", "internal/kubeconfig", "internal/program"}, "its flags choose what an environment runs"},
	"envtest/cmd/assets":                      {[]string{"internal/program"}, "it builds other programs"},
	"envtest/cmd/controlplane":                {nil, "it is documentation and tests"},
	"envtest/cmd/controlplane/etcd":           {nil, "it is etcd's main function"},
	"envtest/cmd/controlplane/kube-apiserver": {[]string{"envtest"}, "it is a command of the environment"},
	"envtest/cmd/oracle":                      {[]string{"internal/kubeconfig", "internal/program"}, "it runs other programs"},

	"bench":                    {[]string{"bench/internal/source", "bench/internal/synthetic", "envtest", "internal/program", "pkg/cache"}, "it compares caches on servers that it runs"},
	"bench/internal/ratios":    {nil, "it computes"},
	"bench/internal/source":    {[]string{"bench/internal/synthetic"}, "it serves made objects"},
	"bench/internal/synthetic": {nil, "it makes objects"},
}

// TestImportsAreAllowed keeps the rooms apart, so that a room can be read and replaced with its
// imports alone. Examples may import any room.
func TestImportsAreAllowed(t *testing.T) {
	seen := map[string]bool{}
	for folder, imports := range importsByFolder(t) {
		if !isRoom(folder) {
			continue
		}
		seen[folder] = true
		allowed, found := rooms[folder]
		if !found {
			t.Errorf("%s is not among the rooms: add it with what it may import, and the reason", folder)
			continue
		}
		for _, imported := range imports {
			within, ours := strings.CutPrefix(imported, module+"/")
			if ours && !slices.Contains(allowed.imports, within) {
				t.Errorf("%s imports %s, which rooms does not allow (%s)", folder, within, allowed.reason)
			}
		}
	}
	for folder := range rooms {
		if !seen[folder] {
			t.Errorf("rooms lists %s, which is not there", folder)
		}
	}
}

func isRoom(folder string) bool {
	top, _, _ := strings.Cut(folder, "/")
	return slices.Contains([]string{"pkg", "internal", "envtest", "bench"}, top)
}

// isMeasured says whether the sizes of a room are bounded. Benchmarks are made of tables, and package faults has structs that are
// larger.
func isMeasured(folder string) bool {
	return isRoom(folder) && folder != "bench" && folder != "envtest/faults"
}

// TestWhatAProgramNeverLinks asks the go command for everything that a room links.
func TestWhatAProgramNeverLinks(t *testing.T) {
	for folder, never := range map[string][]string{
		// A program with the cache is an operator: it has no use for a server or a database.
		"pkg/cache": {"k8s.io/apiserver", "k8s.io/apiextensions-apiserver/pkg/apiserver", "go.etcd.io/", module + "/envtest", module + "/pkg/cacher", module + "/pkg/lease", "testing"},
		// Nor has the page of an operator's cache.
		"pkg/inspect": {"k8s.io/apiserver", "go.etcd.io/", module + "/envtest", module + "/pkg/cacher", "sigs.k8s.io/controller-runtime/pkg/manager", "github.com/chromedp", "testing"},
		// A server with the Cacher chooses its own storage client, and has no use for a cache of clients.
		"pkg/cacher": {module + "/envtest", module + "/pkg/cache", module + "/pkg/informers", "sigs.k8s.io/controller-runtime/pkg/manager"},
		// An environment is a server: a suite chooses its client.
		"envtest": {module + "/pkg/informers", "sigs.k8s.io/controller-runtime/pkg/manager"},
	} {
		for _, linked := range links(t, folder) {
			if slices.ContainsFunc(never, func(n string) bool {
				return linked == strings.TrimSuffix(n, "/") || strings.HasPrefix(linked, strings.TrimSuffix(n, "/")+"/")
			}) {
				t.Errorf("a program that imports %s links %s", folder, linked)
			}
		}
	}
}

// links returns the import paths of all packages that a program with this one links.
func links(t *testing.T, folder string) []string {
	t.Helper()
	output, err := exec.Command("go", "list", "-deps", "./"+folder).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(output))
}

// TestPartsAreSmall bounds what a reader has to hold in mind at once: the fields of a struct, the
// lines of a function and of a file. The comment of a larger one says why, in the words that the
// test expects.
func TestPartsAreSmall(t *testing.T) {
	const fields, lines, fileLines = 12, 60, 500
	eachFile(t, parser.ParseComments, func(name string, file *ast.File, positions *token.FileSet) {
		if !isMeasured(path.Dir(name)) || strings.HasPrefix(path.Base(name), "zz_generated") {
			return
		}
		length := func(n ast.Node) int { return positions.Position(n.End()).Line - positions.Position(n.Pos()).Line + 1 }
		if n := length(file); n > fileLines {
			t.Errorf("%s has %d lines: part it", name, n)
		}
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if n := length(d); n > lines && !strings.Contains(d.Doc.Text(), "more than sixty lines") {
					t.Errorf("%s: %s has %d lines: part it, or say why it has more than sixty lines", name, d.Name.Name, n)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					structure, is := structOf(spec)
					if is && structure.Fields.NumFields() > fields && !strings.Contains(strings.ReplaceAll(d.Doc.Text(), "\n", " "), "more than twelve") {
						t.Errorf("%s: %s has %d fields: group them, or say why there are more than twelve", name, spec.(*ast.TypeSpec).Name.Name, structure.Fields.NumFields())
					}
				}
			}
		}
	})
}

// size is how large a package is, without tests and generated code.
type size struct{ files, lines int }

// TestPackagesAreSmall bounds a package, which a reader has to know before he changes it.
func TestPackagesAreSmall(t *testing.T) {
	most := size{files: 40, lines: 3500}
	sizes := map[string]size{}
	eachFile(t, parser.ParseComments, func(name string, file *ast.File, positions *token.FileSet) {
		if folder := path.Dir(name); isMeasured(folder) && !strings.HasPrefix(path.Base(name), "zz_generated") {
			sizes[folder] = size{sizes[folder].files + 1, sizes[folder].lines + positions.Position(file.FileEnd).Line}
		}
	})
	for folder, is := range sizes {
		if is.files > most.files || is.lines > most.lines {
			t.Errorf("%s has %d files and %d lines, want at most %d and %d: part it by subject", folder, is.files, is.lines, most.files, most.lines)
		}
	}
}

func structOf(spec ast.Spec) (*ast.StructType, bool) {
	named, ok := spec.(*ast.TypeSpec)
	if !ok {
		return nil, false
	}
	structure, ok := named.Type.(*ast.StructType)
	return structure, ok
}

// importsByFolder returns what the Go files of each folder import, without tests.
func importsByFolder(t *testing.T) map[string][]string {
	t.Helper()
	imports := map[string][]string{}
	eachFile(t, parser.ImportsOnly, func(name string, file *ast.File, _ *token.FileSet) {
		folder := path.Dir(name)
		imports[folder] = append(imports[folder], paths(file.Imports)...)
	})
	return imports
}

// eachFile parses the module's Go files, without tests. Names have slashes.
func eachFile(t *testing.T, mode parser.Mode, visit func(name string, file *ast.File, positions *token.FileSet)) {
	t.Helper()
	eachFileOf(t, mode, func(name string) bool { return !strings.HasSuffix(name, "_test.go") }, visit)
}

// eachFileOf parses those of the module's Go files whose names are wanted.
func eachFileOf(t *testing.T, mode parser.Mode, wanted func(name string) bool, visit func(name string, file *ast.File, positions *token.FileSet)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || !wanted(name) {
			return nil
		}
		positions := token.NewFileSet()
		file, err := parser.ParseFile(positions, name, nil, mode)
		if err != nil {
			return err
		}
		visit(name, file, positions)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func paths(specs []*ast.ImportSpec) []string {
	var paths []string
	for _, spec := range specs {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil { // the parser has checked it
			paths = append(paths, p)
		}
	}
	return paths
}
