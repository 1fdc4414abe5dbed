// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package builtin

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
)

// The rules are those of kube-apiserver's pkg/apis/batch/validation.

const (
	manyIndexes = 100_000 // the most completions, failed indexes and Pods at a time of an indexed Job without further conditions
	fewIndexes  = 10_000  // above that, the most failed indexes and Pods at a time
	mostRules   = 20
)

// validateJob checks a Job and keeps its selector, template and completions.
func validateJob(job, old *batchv1.Job) field.ErrorList {
	at := specPath()
	var f faults
	f.generatedSelector(job)
	f.add(validateJobSpec(&job.Spec, at))
	f.jobSelector(&job.Spec, at)
	if old == nil {
		if isIndexed(&job.Spec) && job.Spec.Completions != nil && *job.Spec.Completions > 0 {
			host := fmt.Sprintf("%s-%d", job.Name, *job.Spec.Completions-1)
			f.messages(validation.IsDNS1123Label(host), job.Name, field.NewPath("metadata", "name"))
		}
		return f.list
	}
	f.add(frozen(job.Spec.Selector, old.Spec.Selector, at.Child("selector")))
	f.add(frozen(job.Spec.CompletionMode, old.Spec.CompletionMode, at.Child("completionMode")))
	f.add(frozen(job.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy, at.Child("podFailurePolicy")))
	f.add(frozen(job.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex")))
	f.add(frozen(job.Spec.ManagedBy, old.Spec.ManagedBy, at.Child("managedBy")))
	f.add(frozen(job.Spec.SuccessPolicy, old.Spec.SuccessPolicy, at.Child("successPolicy")))
	f.keptCompletions(&job.Spec, &old.Spec, at.Child("completions"))
	f.keptTemplate(job, old, at.Child("template"))
	return f.list
}

func isIndexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// generatedSelector checks that a selector that was not chosen by hand is the one that was made for the Job.
func (f *faults) generatedSelector(job *batchv1.Job) {
	if isTrue(job.Spec.ManualSelector) || job.Spec.Selector == nil {
		return
	}
	own := labels.Set{
		"controller-uid": string(job.UID), batchv1.ControllerUidLabel: string(job.UID), "job-name": job.Name, batchv1.JobNameLabel: job.Name,
	}
	meta := specPath("template", "metadata")
	for _, key := range slices.Sorted(maps.Keys(own)) {
		value, ok := job.Spec.Template.Labels[key]
		f.need(ok, meta.Child("labels").Key(key))
		f.invalid(ok && value != own[key], meta.Child("labels").Key(key), job.Spec.Template.Labels, fmt.Sprintf("must be '%s'", own[key]))
	}
	if selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil {
		f.invalid(!selector.Matches(own), specPath("selector"), job.Spec.Selector, "`selector` not auto-generated")
	}
}

func (f *faults) jobSelector(spec *batchv1.JobSpec, at *field.Path) {
	if spec.Selector == nil {
		f.need(false, at.Child("selector"))
	}
	f.add(labelSelector(spec.Selector, at.Child("selector")))
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		f.invalid(!selector.Matches(labels.Set(spec.Template.Labels)), at.Child("template", "metadata", "labels"), spec.Template.Labels,
			"`selector` does not match template `labels`")
	}
}

func (f *faults) keptCompletions(spec, old *batchv1.JobSpec, at *field.Path) {
	now, was := spec.Completions, old.Completions
	if !isIndexed(spec) {
		f.add(frozen(now, was, at))
		return
	}
	if now != nil && (was == nil || *now != *was) {
		f.invalid(spec.Parallelism == nil || *now != *spec.Parallelism, at, *now, "can only be modified in tandem with spec.parallelism")
	}
}

// keptTemplate lets a suspended Job change where its Pods run before it starts, and what they ask for at any time.
func (f *faults) keptTemplate(job, old *batchv1.Job, at *field.Path) {
	now, was := job.Spec.Template.DeepCopy(), old.Spec.Template.DeepCopy()
	suspended := isTrue(old.Spec.Suspend)
	if suspended && isTrue(job.Spec.Suspend) || suspended && old.Status.StartTime == nil {
		was.Annotations, was.Labels = now.Annotations, now.Labels
		was.Spec.NodeSelector, was.Spec.Tolerations, was.Spec.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
		takeNodeAffinity(&was.Spec, &now.Spec)
	}
	if !suspended {
		f.add(frozen(now, was, at))
		return
	}
	takeAllResources(was.Spec.Containers, now.Spec.Containers)
	takeAllResources(was.Spec.InitContainers, now.Spec.InitContainers)
	f.add(frozen(now.Spec, was.Spec, at.Child("spec")))
}

func takeNodeAffinity(to, from *corev1.PodSpec) {
	var affinity corev1.Affinity
	if to.Affinity != nil {
		affinity = *to.Affinity
	}
	affinity.NodeAffinity = nodeAffinity(from.Affinity)
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

// validateJobSpec checks a Job's spec, or that of a CronJob's template, which has no selector.
func validateJobSpec(spec *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var f faults
	f.add(notNegative(spec.Parallelism, at.Child("parallelism")))
	f.add(notNegative(spec.Completions, at.Child("completions")))
	f.add(notNegative(spec.BackoffLimit, at.Child("backoffLimit")))
	f.add(notNegative(spec.TTLSecondsAfterFinished, at.Child("ttlSecondsAfterFinished")))
	f.add(notNegative(spec.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex")))
	f.add(notNegative(spec.MaxFailedIndexes, at.Child("maxFailedIndexes")))
	f.need(spec.MaxFailedIndexes == nil || spec.BackoffLimitPerIndex != nil, at.Child("backoffLimitPerIndex"))
	if spec.ActiveDeadlineSeconds != nil {
		f.notNegative(*spec.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds"))
	}
	if spec.ManagedBy != nil {
		f.add(validation.IsDomainPrefixedPath(at.Child("managedBy"), *spec.ManagedBy))
		if len(*spec.ManagedBy) > 63 {
			f.list = append(f.list, field.TooLong(at.Child("managedBy"), "", 63))
		}
	}
	chosen(&f, spec.CompletionMode, at.Child("completionMode"), batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	f.indexes(spec, at)
	if spec.PodFailurePolicy != nil {
		f.failurePolicy(spec, at.Child("podFailurePolicy", "rules"))
	}
	if spec.SuccessPolicy != nil {
		if f.invalid(!isIndexed(spec), at.Child("successPolicy"), *spec.SuccessPolicy, "requires indexed completion mode"); isIndexed(spec) {
			f.successPolicy(spec, at.Child("successPolicy", "rules"))
		}
	}
	if spec.PodFailurePolicy != nil {
		chosen(&f, spec.PodReplacementPolicy, at.Child("podReplacementPolicy"), batchv1.Failed)
	} else {
		chosen(&f, spec.PodReplacementPolicy, at.Child("podReplacementPolicy"), batchv1.Failed, batchv1.TerminatingOrFailed)
	}
	f.add(validateTemplate(&spec.Template, at.Child("template")))
	restart := at.Child("template", "spec", "restartPolicy")
	switch policy := spec.Template.Spec.RestartPolicy; policy {
	case corev1.RestartPolicyAlways, "":
		f.need(false, restart)
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		f.invalid(spec.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever, restart, policy,
			`only "Never" is supported when podFailurePolicy is specified`)
	default:
		known(&f, policy, restart, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
	return f.list
}

// indexes checks what Jobs with an index for each Pod have, and others do not.
func (f *faults) indexes(spec *batchv1.JobSpec, at *field.Path) {
	completions, failed, parallel := spec.Completions, spec.MaxFailedIndexes, spec.Parallelism
	if !isIndexed(spec) {
		if spec.CompletionMode == nil || *spec.CompletionMode == batchv1.NonIndexedCompletion {
			f.invalid(spec.BackoffLimitPerIndex != nil, at.Child("backoffLimitPerIndex"), spec.BackoffLimitPerIndex, "requires indexed completion mode")
			f.invalid(failed != nil, at.Child("maxFailedIndexes"), failed, "requires indexed completion mode")
		}
		return
	}
	f.need(completions != nil, at.Child("completions"))
	f.invalid(parallel != nil && *parallel > manyIndexes, at.Child("parallelism"), parallel, "must be less than or equal to 100000 when completion mode is Indexed")
	f.invalid(completions != nil && failed != nil && *failed > *completions, at.Child("maxFailedIndexes"), failed, "must be less than or equal to completions")
	f.invalid(failed != nil && *failed > manyIndexes, at.Child("maxFailedIndexes"), failed, "must be less than or equal to 100000")
	if completions == nil || *completions <= manyIndexes || spec.BackoffLimitPerIndex == nil {
		return
	}
	f.need(failed != nil, at.Child("maxFailedIndexes"))
	f.invalid(parallel != nil && *parallel > fewIndexes, at.Child("parallelism"), parallel, "must be less than or equal to 10000 when completions are above 100000")
	f.invalid(failed != nil && *failed > fewIndexes, at.Child("maxFailedIndexes"), failed, "must be less than or equal to 10000 when completions are above 100000")
}

func (f *faults) failurePolicy(spec *batchv1.JobSpec, at *field.Path) {
	rules := spec.PodFailurePolicy.Rules
	if len(rules) > mostRules {
		f.list = append(f.list, field.TooMany(at, len(rules), mostRules))
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
			f.invalid(spec.BackoffLimitPerIndex == nil, here.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set")
		} else {
			choice(f, rule.Action, here.Child("action"), batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
				batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)
		}
		if rule.OnExitCodes != nil {
			f.exitCodes(rule.OnExitCodes, containers, here.Child("onExitCodes"))
		}
		if len(rule.OnPodConditions) > mostRules {
			f.list = append(f.list, field.TooMany(here.Child("onPodConditions"), len(rule.OnPodConditions), mostRules))
		}
		for j, pattern := range rule.OnPodConditions {
			on := here.Child("onPodConditions").Index(j)
			f.messages(validation.IsQualifiedName(string(pattern.Type)), pattern.Type, on.Child("type"))
			choice(f, pattern.Status, on.Child("status"), corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
		}
		f.invalid((rule.OnExitCodes == nil) == (len(rule.OnPodConditions) == 0), here, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required")
	}
}

func (f *faults) exitCodes(codes *batchv1.PodFailurePolicyOnExitCodesRequirement, containers sets.Set[string], at *field.Path) {
	choice(f, codes.Operator, at.Child("operator"), batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	f.invalid(codes.ContainerName != nil && !containers.Has(*codes.ContainerName), at.Child("containerName"), codes.ContainerName,
		"must be one of the container or initContainer names in the pod template")
	values := at.Child("values")
	f.invalid(len(codes.Values) == 0, values, codes.Values, "at least one value is required")
	if len(codes.Values) > 255 {
		f.list = append(f.list, field.TooMany(values, len(codes.Values), 255))
	}
	seen := sets.New[string]()
	for i, code := range codes.Values {
		f.invalid(codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && code == 0, values.Index(i), code, "must not be 0 for the In operator")
		f.unique(strconv.Itoa(int(code)), seen, values.Index(i))
	}
	f.invalid(!slices.IsSorted(codes.Values), values, codes.Values, "must be ordered")
}

func (f *faults) successPolicy(spec *batchv1.JobSpec, at *field.Path) {
	rules := spec.SuccessPolicy.Rules
	f.need(len(rules) > 0, at)
	if len(rules) > mostRules {
		f.list = append(f.list, field.TooMany(at, len(rules), mostRules))
	}
	completions := int32(0)
	if spec.Completions != nil {
		completions = *spec.Completions
	}
	for i, rule := range rules {
		here := at.Index(i)
		f.need(rule.SucceededCount != nil || rule.SucceededIndexes != nil, here)
		named := int32(0)
		if text := rule.SucceededIndexes; text != nil {
			if len(*text) > 64<<10 {
				f.list = append(f.list, field.TooLong(here.Child("succeededIndexes"), "", 64<<10))
			}
			var err error
			if named, err = countIndexes(*text, completions); err != nil {
				f.invalid(true, here.Child("succeededIndexes"), *text, "error parsing succeededIndexes: "+err.Error())
			}
		}
		if count := rule.SucceededCount; count != nil {
			f.notNegative(int64(*count), here.Child("succeededCount"))
			f.invalid(*count > completions, here.Child("succeededCount"), *count, "must be less than or equal to the number of specified completions")
			f.invalid(rule.SucceededIndexes != nil && *count > named, here.Child("succeededCount"), *count,
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
	var f faults
	spec, at := &cj.Spec, specPath()
	f.invalid(old == nil && len(cj.Name) > cronJobNameLimit, field.NewPath("metadata", "name"), cj.Name,
		fmt.Sprintf("must be no more than %d characters", cronJobNameLimit))
	if f.text(spec.Schedule, at.Child("schedule")) {
		if err := checkSchedule(spec.Schedule); err != nil {
			f.invalid(true, at.Child("schedule"), spec.Schedule, err.Error())
		}
		zoned := old != nil && strings.Contains(old.Spec.Schedule, "TZ")
		f.invalid(strings.Contains(spec.Schedule, "TZ") && (!zoned || spec.TimeZone != nil), at.Child("schedule"), spec.Schedule,
			"cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	}
	if spec.StartingDeadlineSeconds != nil {
		f.notNegative(*spec.StartingDeadlineSeconds, at.Child("startingDeadlineSeconds"))
	}
	if spec.TimeZone != nil {
		_, err := time.LoadLocation(*spec.TimeZone)
		f.invalid(err != nil || *spec.TimeZone == "" || strings.EqualFold(*spec.TimeZone, "local"), at.Child("timeZone"), *spec.TimeZone, "unknown time zone")
	}
	choice(&f, spec.ConcurrencyPolicy, at.Child("concurrencyPolicy"), batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	f.add(notNegative(spec.SuccessfulJobsHistoryLimit, at.Child("successfulJobsHistoryLimit")))
	f.add(notNegative(spec.FailedJobsHistoryLimit, at.Child("failedJobsHistoryLimit")))
	template := at.Child("jobTemplate", "spec")
	f.add(validateJobSpec(&spec.JobTemplate.Spec, template))
	f.invalid(spec.JobTemplate.Spec.Selector != nil, template.Child("selector"), spec.JobTemplate.Spec.Selector, "`selector` will be auto-generated")
	if isTrue(spec.JobTemplate.Spec.ManualSelector) {
		f.list = append(f.list, field.NotSupported(template.Child("manualSelector"), true, []string{"nil", "false"}))
	}
	return f.list
}
