// Copyright The Tarn Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"crypto/rand"
	"sync"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// userTokens knows the bearer tokens of one server and whose they are. It is safe for concurrent use.
type userTokens struct {
	mu    sync.RWMutex
	users map[string]*user.DefaultInfo // guarded by mu; by token
}

func newTokens() *userTokens {
	return &userTokens{users: map[string]*user.DefaultInfo{}}
}

// issue makes a new token for the user, who may have others.
func (t *userTokens) issue(name string, groups ...string) string {
	token := rand.Text()
	t.add(token, name, groups...)
	return token
}

// add makes a token one of the user's.
func (t *userTokens) add(token, name string, groups ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.users[token] = &user.DefaultInfo{Name: name, Groups: append([]string(nil), groups...)}
}

// AuthenticateToken implements authenticator.Token.
func (t *userTokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	info, ok := t.users[token]
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: info}, true, nil
}
