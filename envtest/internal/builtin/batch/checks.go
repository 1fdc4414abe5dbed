// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
	"github.com/tarn-dev/tarn/envtest/internal/builtin/podspec"
)

// The rules are those of kube-apiserver's pkg/apis/batch/validation.

const (
	manyIndexes = 100_000 // the most completions, failed indexes and Pods at a time of an indexed Job without further conditions
	fewIndexes  = 10_000  // above that, the most failed indexes and Pods at a time
	mostRules   = 20
)

// validateJob checks a Job and keeps its selector, template and completions.
func validateJob(job, old *batchv1.Job) field.ErrorList {
	at := kind.SpecPath()
	var f kind.Findings
	checkGeneratedSelector(&f, job)
	f.Add(validateJobSpec(&job.Spec, at))
	checkJobSelector(&f, &job.Spec, at)
	if old == nil {
		if isIndexed(&job.Spec) && job.Spec.Completions != nil && *job.Spec.Completions > 0 {
			host := fmt.Sprintf("%s-%d", job.Name, *job.Spec.Completions-1)
			f.Messages(validation.IsDNS1123Label(host), job.Name, field.NewPath("metadata", "name"))
		}
		return f.List
	}
	f.Add(kind.Frozen(job.Spec.Selector, old.Spec.Selector, at.Child("selector")))
	f.Add(kind.Frozen(job.Spec.CompletionMode, old.Spec.CompletionMode, at.Child("completionMode")))
	f.Add(kind.Frozen(job.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy, at.Child("podFailurePolicy")))
	f.Add(kind.Frozen(job.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex")))
	f.Add(kind.Frozen(job.Spec.ManagedBy, old.Spec.ManagedBy, at.Child("managedBy")))
	f.Add(kind.Frozen(job.Spec.SuccessPolicy, old.Spec.SuccessPolicy, at.Child("successPolicy")))
	checkKeptCompletions(&f, &job.Spec, &old.Spec, at.Child("completions"))
	checkKeptTemplate(&f, job, old, at.Child("template"))
	return f.List
}

func isIndexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// checkGeneratedSelector checks that a selector not chosen by hand is the one made for the Job.
func checkGeneratedSelector(f *kind.Findings, job *batchv1.Job) {
	if kind.IsTrue(job.Spec.ManualSelector) || job.Spec.Selector == nil {
		return
	}
	own := labels.Set{
		"controller-uid": string(job.UID), batchv1.ControllerUidLabel: string(job.UID), "job-name": job.Name, batchv1.JobNameLabel: job.Name,
	}
	meta := kind.SpecPath("template", "metadata")
	for _, key := range slices.Sorted(maps.Keys(own)) {
		value, ok := job.Spec.Template.Labels[key]
		f.Need(ok, meta.Child("labels").Key(key))
		f.Invalid(ok && value != own[key], meta.Child("labels").Key(key), job.Spec.Template.Labels, fmt.Sprintf("must be '%s'", own[key]))
	}
	if selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil {
		f.Invalid(!selector.Matches(own), kind.SpecPath("selector"), job.Spec.Selector, "`selector` not auto-generated")
	}
}

func checkJobSelector(f *kind.Findings, spec *batchv1.JobSpec, at *field.Path) {
	if spec.Selector == nil {
		f.Need(false, at.Child("selector"))
	}
	f.Add(kind.LabelSelector(spec.Selector, at.Child("selector")))
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		f.Invalid(!selector.Matches(labels.Set(spec.Template.Labels)), at.Child("template", "metadata", "labels"), spec.Template.Labels,
			"`selector` does not match template `labels`")
	}
}

func checkKeptCompletions(f *kind.Findings, spec, old *batchv1.JobSpec, at *field.Path) {
	now, was := spec.Completions, old.Completions
	if !isIndexed(spec) {
		f.Add(kind.Frozen(now, was, at))
		return
	}
	if now != nil && (was == nil || *now != *was) {
		f.Invalid(spec.Parallelism == nil || *now != *spec.Parallelism, at, *now, "can only be modified in tandem with spec.parallelism")
	}
}

// checkKeptTemplate lets a suspended Job change where its Pods run before it starts, and what they ask for at any time.
func checkKeptTemplate(f *kind.Findings, job, old *batchv1.Job, at *field.Path) {
	now, was := job.Spec.Template.DeepCopy(), old.Spec.Template.DeepCopy()
	suspended := kind.IsTrue(old.Spec.Suspend)
	if suspended && kind.IsTrue(job.Spec.Suspend) || suspended && old.Status.StartTime == nil {
		was.Annotations, was.Labels = now.Annotations, now.Labels
		was.Spec.NodeSelector, was.Spec.Tolerations, was.Spec.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
		takeNodeAffinity(&was.Spec, &now.Spec)
	}
	if !suspended {
		f.Add(kind.Frozen(now, was, at))
		return
	}
	takeAllResources(was.Spec.Containers, now.Spec.Containers)
	takeAllResources(was.Spec.InitContainers, now.Spec.InitContainers)
	f.Add(kind.Frozen(now.Spec, was.Spec, at.Child("spec")))
}

func takeNodeAffinity(to, from *corev1.PodSpec) {
	var affinity corev1.Affinity
	if to.Affinity != nil {
		affinity = *to.Affinity
	}
	affinity.NodeAffinity = podspec.NodeAffinity(from.Affinity)
	to.Affinity = &affinity
	if affinity == (corev1.Affinity{}) && from.Affinity == nil {
		to.Affinity = nil
	}
}

func takeAllResources(to, from []corev1.Container) {
	for i := range to {
		if len(to) == len(from) && to[i].Name == from[i].Name {
			to[i].Resources = from[i].Resources
		}
	}
}

// validateJobSpec checks the spec of a Job, or of a CronJob's template, which has no selector.
func validateJobSpec(spec *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var f kind.Findings
	f.Add(kind.NotNegative(spec.Parallelism, at.Child("parallelism")))
	f.Add(kind.NotNegative(spec.Completions, at.Child("completions")))
	f.Add(kind.NotNegative(spec.BackoffLimit, at.Child("backoffLimit")))
	f.Add(kind.NotNegative(spec.TTLSecondsAfterFinished, at.Child("ttlSecondsAfterFinished")))
	f.Add(kind.NotNegative(spec.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex")))
	f.Add(kind.NotNegative(spec.MaxFailedIndexes, at.Child("maxFailedIndexes")))
	f.Need(spec.MaxFailedIndexes == nil || spec.BackoffLimitPerIndex != nil, at.Child("backoffLimitPerIndex"))
	if spec.ActiveDeadlineSeconds != nil {
		f.NotNegative(*spec.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds"))
	}
	if spec.ManagedBy != nil {
		f.Add(validation.IsDomainPrefixedPath(at.Child("managedBy"), *spec.ManagedBy))
		if len(*spec.ManagedBy) > 63 {
			f.List = append(f.List, field.TooLong(at.Child("managedBy"), "", 63))
		}
	}
	kind.Chosen(&f, spec.CompletionMode, at.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	checkIndexes(&f, spec, at)
	if spec.PodFailurePolicy != nil {
		checkFailurePolicy(&f, spec, at.Child("podFailurePolicy", "rules"))
	}
	if spec.SuccessPolicy != nil {
		if f.Invalid(!isIndexed(spec), at.Child("successPolicy"), *spec.SuccessPolicy, "requires indexed completion mode"); isIndexed(spec) {
			checkSuccessPolicy(&f, spec, at.Child("successPolicy", "rules"))
		}
	}
	if spec.PodFailurePolicy != nil {
		kind.Chosen(&f, spec.PodReplacementPolicy, at.Child("podReplacementPolicy"), batchv1.Failed)
	} else {
		kind.Chosen(&f, spec.PodReplacementPolicy, at.Child("podReplacementPolicy"), batchv1.Failed, batchv1.TerminatingOrFailed)
	}
	f.Add(podspec.ValidateTemplate(&spec.Template, at.Child("template")))
	restart := at.Child("template", "spec", "restartPolicy")
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "":
		f.Need(false, restart)
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		f.Invalid(spec.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever, restart, policy,
			`only "Never" is supported when podFailurePolicy is specified`)
	default:
		kind.Known(&f, policy, restart, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
	return f.List
}

// checkIndexes checks what Jobs with an index for each Pod have, and others do not.
func checkIndexes(f *kind.Findings, spec *batchv1.JobSpec, at *field.Path) {
	completions, failed, parallel := spec.Completions, spec.MaxFailedIndexes, spec.Parallelism
	if !isIndexed(spec) {
		if spec.CompletionMode == nil || *spec.CompletionMode == batchv1.NonIndexedCompletion {
			f.Invalid(spec.BackoffLimitPerIndex != nil, at.Child("backoffLimitPerIndex"), spec.BackoffLimitPerIndex, "requires indexed completion mode")
			f.Invalid(failed != nil, at.Child("maxFailedIndexes"), failed, "requires indexed completion mode")
		}
		return
	}
	f.Need(completions != nil, at.Child("completions"))
	f.Invalid(parallel != nil && *parallel > manyIndexes, at.Child("parallelism"), parallel, "must be less than or equal to 100000 when completion mode is Indexed")
	f.Invalid(completions != nil && failed != nil && *failed > *completions, at.Child("maxFailedIndexes"), failed, "must be less than or equal to completions")
	f.Invalid(failed != nil && *failed > manyIndexes, at.Child("maxFailedIndexes"), failed, "must be less than or equal to 100000")
	if completions == nil || *completions <= manyIndexes || spec.BackoffLimitPerIndex == nil {
		return
	}
	f.Need(failed != nil, at.Child("maxFailedIndexes"))
	f.Invalid(parallel != nil && *parallel > fewIndexes, at.Child("parallelism"), parallel, "must be less than or equal to 10000 when completions are above 100000")
	f.Invalid(failed != nil && *failed > fewIndexes, at.Child("maxFailedIndexes"), failed, "must be less than or equal to 10000 when completions are above 100000")
}

func checkFailurePolicy(f *kind.Findings, spec *batchv1.JobSpec, at *field.Path) {
	rules := spec.PodFailurePolicy.Rules
	if len(rules) > mostRules {
		f.List = append(f.List, field.TooMany(at, len(rules), mostRules))
	}
	containers := sets.New[string]()
	for _, list := range [][]corev1.Container{spec.Template.Spec.Containers, spec.Template.Spec.InitContainers} {
		for i := range list {
			containers.Insert(list[i].Name)
		}
	}
	for i := range rules {
		rule, here := &rules[i], at.Index(i)
		if rule.Action == batchv1.PodFailurePolicyActionFailIndex {
			f.Invalid(spec.BackoffLimitPerIndex == nil, here.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set")
		} else {
			kind.Choice(f, rule.Action, here.Child("action"), batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
				batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
		}
		if rule.OnExitCodes != nil {
			checkExitCodes(f, rule.OnExitCodes, containers, here.Child("onExitCodes"))
		}
		if len(rule.OnPodConditions) > mostRules {
			f.List = append(f.List, field.TooMany(here.Child("onPodConditions"), len(rule.OnPodConditions), mostRules))
		}
		for j, pattern := range rule.OnPodConditions {
			on := here.Child("onPodConditions").Index(j)
			f.Messages(validation.IsQualifiedName(string(pattern.Type)), pattern.Type, on.Child("type"))
			kind.Choice(f, pattern.Status, on.Child("status"), corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
		f.Invalid((rule.OnExitCodes == nil) == (len(rule.OnPodConditions) == 0), here, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
	}
}

func checkExitCodes(f *kind.Findings, codes *batchv1.PodFailurePolicyOnExitCodesRequirement, containers sets.Set[string], at *field.Path) {
	kind.Choice(f, codes.Operator, at.Child("operator"), batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	f.Invalid(codes.ContainerName != nil && !containers.Has(*codes.ContainerName), at.Child("containerName"), codes.ContainerName,
		"must be one of the container or initContainer names in the pod template")
	values := at.Child("values")
	f.Invalid(len(codes.Values) == 0, values, codes.Values, "at least one value is required")
	if len(codes.Values) > 255 {
		f.List = append(f.List, field.TooMany(values, len(codes.Values), 255))
	}
	seen := sets.New[string]()
	for i, code := range codes.Values {
		f.Invalid(codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && code == 0, values.Index(i), code, "must not be 0 for the In operator")
		f.Unique(strconv.Itoa(int(code)), seen, values.Index(i))
	}
	f.Invalid(!slices.IsSorted(codes.Values), values, codes.Values, "must be ordered")
}

func checkSuccessPolicy(f *kind.Findings, spec *batchv1.JobSpec, at *field.Path) {
	rules := spec.SuccessPolicy.Rules
	f.Need(len(rules) > 0, at)
	if len(rules) > mostRules {
		f.List = append(f.List, field.TooMany(at, len(rules), mostRules))
	}
	completions := int32(0)
	if spec.Completions != nil {
		completions = *spec.Completions
	}
	for i, rule := range rules {
		here := at.Index(i)
		f.Need(rule.SucceededCount != nil || rule.SucceededIndexes != nil, here)
		named := int32(0)
		if text := rule.SucceededIndexes; text != nil {
			if len(*text) > 64<<10 {
				f.List = append(f.List, field.TooLong(here.Child("succeededIndexes"), "", 64<<10))
			}
			var err error
			if named, err = countIndexes(*text, completions); err != nil {
				f.Invalid(true, here.Child("succeededIndexes"), *text, "error parsing succeededIndexes: "+err.Error())
			}
		}
		if count := rule.SucceededCount; count != nil {
			f.NotNegative(int64(*count), here.Child("succeededCount"))
			f.Invalid(*count > completions, here.Child("succeededCount"), *count, "must be less than or equal to the number of specified completions")
			f.Invalid(rule.SucceededIndexes != nil && *count > named, here.Child("succeededCount"), *count,
				"must be less than or equal to the number of indexes in the specified succeededIndexes field")
		}
	}
}

// countIndexes counts the indexes of a text like "1,3-5", all below completions and in order.
func countIndexes(text string, completions int32) (int32, error) {
	if text == "" {
		return 0, nil
	}
	total, last := int32(0), int32(-1)
	for _, part := range strings.Split(text, ",") {
		first, end, ranged := strings.Cut(part, "-")
		low, err := indexOf(first, completions)
		if err != nil {
			return 0, err
		}
		high := low
		if ranged {
			if high, err = indexOf(end, completions); err != nil {
				return 0, err
			}
		}
		if low <= last || ranged && low >= high {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, low)
		}
		total, last = total+high-low+1, high
	}
	return total, nil
}

func indexOf(text string, completions int32) (int32, error) {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if int32(n) >= completions {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return int32(n), nil
}

// cronJobNameLimit leaves room for the 11 characters that make the name of a CronJob's Job.
const cronJobNameLimit = validation.DNS1035LabelMaxLength - 11

func validateCronJob(cj, old *batchv1.CronJob) field.ErrorList {
	var f kind.Findings
	spec, at := &cj.Spec, kind.SpecPath()
	f.Invalid(old == nil && len(cj.Name) > cronJobNameLimit, field.NewPath("metadata", "name"), cj.Name,
		fmt.Sprintf("must be no more than %d characters", cronJobNameLimit))
	if f.Text(spec.Schedule, at.Child("schedule")) {
		if err := checkSchedule(spec.Schedule); err != nil {
			f.Invalid(true, at.Child("schedule"), spec.Schedule, err.Error())
		}
		zoned := old != nil && strings.Contains(old.Spec.Schedule, "TZ")
		f.Invalid(strings.Contains(spec.Schedule, "TZ") && (!zoned || spec.TimeZone != nil), at.Child("schedule"), spec.Schedule,
			"cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	}
	if spec.StartingDeadlineSeconds != nil {
		f.NotNegative(*spec.StartingDeadlineSeconds, at.Child("startingDeadlineSeconds"))
	}
	if spec.TimeZone != nil {
		_, err := time.LoadLocation(*spec.TimeZone)
		f.Invalid(err != nil || *spec.TimeZone == "" || strings.EqualFold(*spec.TimeZone, "local"), at.Child("timeZone"), *spec.TimeZone, "unknown time zone")
	}
	kind.Choice(&f, spec.ConcurrencyPolicy, at.Child("concurrencyPolicy"), batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	f.Add(kind.NotNegative(spec.SuccessfulJobsHistoryLimit, at.Child("successfulJobsHistoryLimit")))
	f.Add(kind.NotNegative(spec.FailedJobsHistoryLimit, at.Child("failedJobsHistoryLimit")))
	template := at.Child("jobTemplate", "spec")
	f.Add(validateJobSpec(&spec.JobTemplate.Spec, template))
	f.Invalid(spec.JobTemplate.Spec.Selector != nil, template.Child("selector"), spec.JobTemplate.Spec.Selector, "`selector` will be auto-generated")
	if kind.IsTrue(spec.JobTemplate.Spec.ManualSelector) {
		f.List = append(f.List, field.NotSupported(template.Child("manualSelector"), true, []string{"nil", "false"}))
	}
	return f.List
}
