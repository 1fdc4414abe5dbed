// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tarn-dev/tarn/envtest/internal/builtin/kind"
)

// portChoice gives node ports to one Service. Ports of other Services are taken, and never given. Ports that the Service asks
// for are reserved, and given to no other port of it.
type portChoice struct{ taken, reserved []int32 }

// givePorts chooses or checks the node ports and the port for health checks. old is nil on create; what it has, svc may have.
func givePorts(svc, old *corev1.Service, used []int32) field.ErrorList {
	choice := portChoice{taken: used, reserved: takenBy(svc).ports}
	var errs field.ErrorList
	if hasNodePorts(svc) && old == nil {
		errs = choice.forNew(svc)
	} else if hasNodePorts(svc) {
		errs = choice.forChanged(svc, old)
	}
	if checksHealth(svc) && (old == nil || !checksHealth(old)) {
		errs = append(errs, choice.give(&svc.Spec.HealthCheckNodePort, kind.SpecPath("healthCheckNodePort"))...)
	}
	return errs
}

// forNew gives node ports to a new Service: one to each port number, of whatever protocols, unless the client chooses.
func (c *portChoice) forNew(svc *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	given := map[int32]int32{} // node ports by port
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		if port.NodePort == 0 && !wantsNodePorts(svc) {
			continue
		}
		first, again := given[port.Port]
		if !again {
			first = askedFor(svc, port.Port)
		}
		kind.Unset(&port.NodePort, first)
		if again && port.NodePort == first {
			continue
		}
		errs = append(errs, c.give(&port.NodePort, kind.SpecPath("ports").Index(i).Child("nodePort"))...)
		if !again {
			given[port.Port] = port.NodePort
		}
	}
	return errs
}

// forChanged gives node ports to the ports without one, and checks the new ones.
func (c *portChoice) forChanged(svc, old *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	own := nodePorts(old)
	c.taken = append(c.taken, own...)
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		if port.NodePort == 0 && !wantsNodePorts(svc) || slices.Contains(own, port.NodePort) {
			continue
		}
		errs = append(errs, c.give(&port.NodePort, kind.SpecPath("ports").Index(i).Child("nodePort"))...)
		own = append(own, port.NodePort)
	}
	return errs
}

// give takes a free node port, or number if it is one.
func (c *portChoice) give(number *int32, path *field.Path) field.ErrorList {
	switch {
	case *number == 0:
		*number = freePort(c.taken, c.reserved)
		if *number == 0 {
			return field.ErrorList{field.InternalError(path, errors.New("all node ports are in use; delete services"))}
		}
	case *number < firstNodePort || *number > lastNodePort:
		return field.ErrorList{field.Invalid(path, *number,
			fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, lastNodePort))}
	case slices.Contains(c.taken, *number):
		return field.ErrorList{field.Invalid(path, *number, "provided port is already allocated")}
	}
	c.taken = append(c.taken, *number)
	return nil
}

// askedFor returns the node port that a Service names first for a port number, in any protocol, or 0.
func askedFor(svc *corev1.Service, number int32) int32 {
	for _, port := range svc.Spec.Ports {
		if port.Port == number && port.NodePort != 0 {
			return port.NodePort
		}
	}
	return 0
}

// freePort returns the lowest node port from dynamicNodePort on that is in none of the lists, or else the lowest of all, or 0.
func freePort(taken, reserved []int32) int32 {
	for _, from := range []int32{dynamicNodePort, firstNodePort} {
		for port := from; port <= lastNodePort; port++ {
			if !slices.Contains(taken, port) && !slices.Contains(reserved, port) {
				return port
			}
		}
	}
	return 0
}
