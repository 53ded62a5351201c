package main

import (
	"context"
	"encoding/json"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// The stored version of Memcached, which has fields that v1alpha1 lacks.
type (
	MemcachedHub     struct{ object[MemcachedHubSpec] }
	MemcachedHubSpec struct {
		Replicas       int32                        `json:"replicas"`
		Image          string                       `json:"image,omitempty"`
		Resources      *corev1.ResourceRequirements `json:"resources,omitempty"`
		Memory         *int32                       `json:"memory,omitempty"`
		MaxConnections *int32                       `json:"maxConnections,omitempty"`
		Threads        *int32                       `json:"threads,omitempty"`
		Port           *int32                       `json:"port,omitempty"`
		Service        *MemcachedService            `json:"service,omitempty"`
	}
	MemcachedService struct {
		Enabled *bool `json:"enabled,omitempty"`
	}
)

var memcachedHub = schema.GroupVersionKind{Group: "cache.example.com", Version: "v1", Kind: "Memcached"}

// DeepCopyObject shares what the spec points to: webhooks never write to it.
func (o *MemcachedHub) DeepCopyObject() runtime.Object { return &MemcachedHub{o.clone()} }

const conversionData = "quartet-operator.example.com/conversion-data"

// hubToSpoke keeps the fields that v1alpha1 lacks in one annotation.
func hubToSpoke(_ context.Context, hub *MemcachedHub, spoke *Memcached) error {
	spoke.ObjectMeta, spoke.Status = hub.ObjectMeta, hub.Status
	spoke.Spec.Size = hub.Spec.Replicas
	rest := hub.Spec
	rest.Replicas = 0
	if reflect.DeepEqual(rest, MemcachedHubSpec{}) {
		return nil
	}
	data, err := json.Marshal(rest)
	if err != nil {
		return err
	}
	if spoke.Annotations == nil {
		spoke.Annotations = map[string]string{}
	}
	spoke.Annotations[conversionData] = string(data)
	return nil
}

func spokeToHub(_ context.Context, spoke *Memcached, hub *MemcachedHub) error {
	hub.ObjectMeta, hub.Status = spoke.ObjectMeta, spoke.Status
	if data, ok := spoke.Annotations[conversionData]; ok {
		if err := json.Unmarshal([]byte(data), &hub.Spec); err != nil {
			return err
		}
		delete(hub.Annotations, conversionData)
	}
	hub.Spec.Replicas = spoke.Spec.Size
	return nil
}

// validator rejects a negative size, with an error like the API server's own.
type validator struct{}

func (validator) check(o *MemcachedHub) (admission.Warnings, error) {
	if o.Spec.Replicas >= 0 {
		return nil, nil
	}
	path := field.NewPath("spec", "replicas")
	errors := field.ErrorList{field.Invalid(path, o.Spec.Replicas, "must be greater than or equal to 0")}
	return nil, apierrors.NewInvalid(memcachedHub.GroupKind(), o.GetName(), errors)
}

func (v validator) ValidateCreate(_ context.Context, o *MemcachedHub) (admission.Warnings, error) {
	return v.check(o)
}

func (v validator) ValidateUpdate(_ context.Context, _, o *MemcachedHub) (admission.Warnings, error) {
	return v.check(o)
}

func (validator) ValidateDelete(context.Context, *MemcachedHub) (admission.Warnings, error) {
	return nil, nil
}

// serveWebhooks sends no request to an API server.
func serveWebhooks(scheme *runtime.Scheme, port int, certPath string) error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:        scheme,
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: certPath}),
	})
	if err != nil {
		return err
	}
	spoke := conversion.NewSpokeConverter(&Memcached{}, hubToSpoke, spokeToHub)
	builder := ctrl.NewWebhookManagedBy(manager, &MemcachedHub{}).
		WithConverter(conversion.NewHubSpokeConverter(&MemcachedHub{}, spoke)).
		WithValidator(validator{})
	if err := builder.Complete(); err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}
