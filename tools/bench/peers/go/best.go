package main

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

const (
	ownerIndex = "owner" // pods by "<kind>/<instance>", so that a list is not a scan of the namespace
	workers    = 16      // of each kind
	coalesce   = 100 * time.Millisecond
)

// best is the least work controller-runtime can be made to do: reads from the cache only, one server-side
// apply per child and only when it differs, one status patch and only when it differs, bursts coalesced.
type best[T Operand] struct {
	client.Client
	New func() T
}

func podMeta() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
}

// indexPods is called once per manager.
func indexPods(mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(context.Background(), podMeta(), ownerIndex, func(o client.Object) []string {
		l := o.GetLabels()
		return []string{l[labelName] + "/" + l[labelInstance]}
	})
}

func (r *best[T]) SetupWithManager(mgr ctrl.Manager) error {
	o := r.New()
	// Children and pods are found by label; a burst of their events becomes one reconcile.
	enqueue := func(child client.Object, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
		if l := child.GetLabels(); l[labelName] == o.kind() {
			q.AddAfter(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: child.GetNamespace(), Name: l[labelInstance]}}, coalesce)
		}
	}
	children := handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[ctrl.Request]) {
			enqueue(e.Object, q)
		},
	}
	b := ctrl.NewControllerManagedBy(mgr).Named(o.kind()).
		For(o, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&appsv1.Deployment{}, children).
		WatchesMetadata(&corev1.Pod{}, children).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers})
	if o.kind() == "elasticweb" {
		b = b.Watches(&corev1.Service{}, children)
	}
	return b.Complete(r)
}

func (r *best[T]) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	cr := r.New()
	if err := r.Get(ctx, req.NamespacedName, cr); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if cr.GetDeletionTimestamp() != nil {
		return ctrl.Result{}, nil
	}
	gvk, err := apiutil.GVKForObject(cr, r.Scheme())
	if err != nil {
		return ctrl.Result{}, err
	}
	cr.GetObjectKind().SetGroupVersionKind(gvk)

	want, got := deployment(cr), &appsv1.Deployment{}
	if err := r.Get(ctx, req.NamespacedName, got); apierrors.IsNotFound(err) {
		got = nil
	} else if err != nil {
		return ctrl.Result{}, err
	}
	if got == nil || !sameDeployment(cr, want, got) {
		if err := r.Apply(ctx, applyDeployment(cr, want), client.ForceOwnership, client.FieldOwner(managedBy)); err != nil {
			return ctrl.Result{}, err
		}
		got = nil // what the cache holds is no longer so
	}
	if cr.nodePort() != 0 {
		want, got := service(cr), &corev1.Service{}
		err := r.Get(ctx, req.NamespacedName, got)
		if err != nil && !apierrors.IsNotFound(err) {
			return ctrl.Result{}, err
		}
		if err != nil || !sameService(cr, want, got) {
			if err := r.Apply(ctx, applyService(cr, want), client.ForceOwnership, client.FieldOwner(managedBy)); err != nil {
				return ctrl.Result{}, err
			}
		}
	}

	pods := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	if err := r.List(ctx, pods, client.InNamespace(req.Namespace),
		client.MatchingFields{ownerIndex: cr.kind() + "/" + cr.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, err
	}
	old := cr.DeepCopyObject().(T)
	var nodes []string
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp == nil {
			nodes = append(nodes, pods.Items[i].Name)
		}
	}
	slices.Sort(nodes)
	cr.status().Nodes = nodes
	setConditions(cr, got)
	if equality.Semantic.DeepEqual(old.status(), cr.status()) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, r.Status().Patch(ctx, cr, client.MergeFrom(old), client.FieldOwner(managedBy))
}
