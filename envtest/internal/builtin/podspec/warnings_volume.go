// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// volumes warns of outdated volumes, of templates of claims, and of files in one volume that are in each other's way.
func (p *podWarnings) volumes() {
	for i := range p.Spec.Volumes {
		v, at := &p.Spec.Volumes[i], p.inSpec.Child("volumes").Index(i)
		WarnVolumeSource(p.Warnings, v.VolumeSource, at)
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			WarnClaim(p.Warnings, &v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate", "spec"))
		}
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.ConfigMap != nil {
			p.files(v.Name, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), keyFiles(v.ConfigMap.Items, ""))
		}
		if v.Secret != nil {
			p.files(v.Name, fmt.Sprintf("Secret %q", v.Secret.SecretName), keyFiles(v.Secret.Items, ""))
		}
		if v.DownwardAPI != nil {
			p.files(v.Name, "DownwardAPI", podFiles(v.DownwardAPI.Items, ""))
		}
		if v.Projected != nil {
			p.projected(v.Name, v.Projected.Sources)
		}
	}
}

func (p *podWarnings) projected(volume string, sources []corev1.VolumeProjection) {
	var all []volumeFile
	for _, s := range sources {
		switch {
		case s == corev1.VolumeProjection{}:
			p.Say("volume %q (Projected) has no sources provided", volume)
		case s.ConfigMap != nil:
			all = append(all, keyFiles(s.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", s.ConfigMap.Name))...)
		case s.Secret != nil:
			all = append(all, keyFiles(s.Secret.Items, fmt.Sprintf("Secret %q", s.Secret.Name))...)
		case s.DownwardAPI != nil:
			all = append(all, podFiles(s.DownwardAPI.Items, "DownwardAPI")...)
		case s.ServiceAccountToken != nil:
			all = append(all, volumeFile{s.ServiceAccountToken.Path, "ServiceAccountToken"})
		}
	}
	p.files(volume, "Projected", all)
}

// volumeFile is the path of a file in a volume, and where it comes from if the volume has several sources.
type volumeFile struct{ path, source string }

func (f volumeFile) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

func keyFiles(items []corev1.KeyToPath, source string) (files []volumeFile) {
	for _, item := range items {
		files = append(files, volumeFile{item.Path, source})
	}
	return files
}

func podFiles(items []corev1.DownwardAPIVolumeFile, source string) (files []volumeFile) {
	for _, item := range items {
		files = append(files, volumeFile{item.Path, source})
	}
	return files
}

// files warns of files with one path, and of files whose path is a folder of others.
func (p *podWarnings) files(volume, what string, files []volumeFile) {
	for i := range files {
		files[i].path = strings.TrimRight(files[i].path, "/")
		a := files[i].path + "/"
		for _, earlier := range files[:i] {
			b := earlier.path + "/"
			if a != "/" && b != "/" && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) {
				p.Say("volume %q (%s): overlapping paths: %s with %s", volume, what, files[i], earlier)
			}
		}
	}
}
