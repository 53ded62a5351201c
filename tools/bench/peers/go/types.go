package main

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operand is what the reconcilers need to know of a CR of any of the four kinds.
type Operand interface {
	client.Object
	kind() string         // value of app.kubernetes.io/name
	image() string        //
	containerPort() int32 //
	replicas() int32      // desired
	nodePort() int32      // 0: the kind owns no Service
	status() *Status      //
	realQPS(ready int32)  // sets status.realQPS where the kind has it
	podLabels() []string  // further labels of the pods, key, value, ...
}

// Status is shared; realQPS is ElasticWeb's, and the three after observedGeneration are not written
// but converted.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Replicas           int32              `json:"replicas,omitempty"`
	ReadyReplicas      int32              `json:"readyReplicas,omitempty"`
	Selector           string             `json:"selector,omitempty"`
	Nodes              []string           `json:"nodes,omitempty"`
	RealQPS            int64              `json:"realQPS,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

func (s *Status) deepCopy() Status {
	c := *s
	c.Nodes, c.Conditions = slices.Clone(s.Nodes), slices.Clone(s.Conditions)
	return c
}

type SizeSpec struct {
	Size int32 `json:"size"`
}
type CountSpec struct {
	Count int32 `json:"count"`
}
type ElasticWebSpec struct {
	Image         string `json:"image"`
	Port          int32  `json:"port"`
	SinglePodsQPS int32  `json:"singlePodsQPS"`
	TotalQPS      int32  `json:"totalQPS,omitempty"`
}

// object is the common shape; the four kinds are distinct Go types because a scheme wants that.
type object[S any] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              S      `json:"spec"`
	Status            Status `json:"status,omitempty"`
}

func (o *object[S]) status() *Status     { return &o.Status }
func (o *object[S]) nodePort() int32     { return 0 }
func (o *object[S]) realQPS(int32)       {}
func (o *object[S]) podLabels() []string { return nil }
func (o *object[S]) clone() object[S] { // specs hold no pointers
	return object[S]{o.TypeMeta, *o.ObjectMeta.DeepCopy(), o.Spec, o.Status.deepCopy()}
}

type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []T `json:"items"`
}

func cloneItems[T any](l list[T], copyOf func(*T) T) list[T] {
	out := list[T]{l.TypeMeta, *l.ListMeta.DeepCopy(), make([]T, len(l.Items))}
	for i := range l.Items {
		out.Items[i] = copyOf(&l.Items[i])
	}
	return out
}

type (
	Memcached      struct{ object[SizeSpec] }
	Nginx          struct{ object[CountSpec] }
	HelloWorld     struct{ object[SizeSpec] }
	ElasticWeb     struct{ object[ElasticWebSpec] }
	MemcachedList  struct{ list[Memcached] }
	NginxList      struct{ list[Nginx] }
	HelloWorldList struct{ list[HelloWorld] }
	ElasticWebList struct{ list[ElasticWeb] }
)

func (o *Memcached) kind() string          { return "memcached" }
func (o *Memcached) image() string         { return "memcached:1.6.39-alpine" }
func (o *Memcached) containerPort() int32  { return 11211 }
func (o *Memcached) replicas() int32       { return o.Spec.Size }
func (o *Nginx) kind() string              { return "nginx" }
func (o *Nginx) image() string             { return "nginxinc/nginx-unprivileged:1.29" }
func (o *Nginx) containerPort() int32      { return 8080 }
func (o *Nginx) replicas() int32           { return o.Spec.Count }
func (o *HelloWorld) kind() string         { return "helloworld" }
func (o *HelloWorld) image() string        { return "example.com/helloworld:1.0" }
func (o *HelloWorld) containerPort() int32 { return 8080 }
func (o *HelloWorld) replicas() int32      { return o.Spec.Size }
func (o *HelloWorld) podLabels() []string  { return []string{"hello_name", o.Name} }
func (o *ElasticWeb) kind() string         { return "elasticweb" }
func (o *ElasticWeb) image() string        { return o.Spec.Image }
func (o *ElasticWeb) containerPort() int32 { return 80 }
func (o *ElasticWeb) nodePort() int32      { return o.Spec.Port }
func (o *ElasticWeb) realQPS(ready int32) {
	o.Status.RealQPS = int64(o.Spec.SinglePodsQPS) * int64(ready)
}
func (o *ElasticWeb) replicas() int32 {
	single, total := int64(max(o.Spec.SinglePodsQPS, 1)), int64(o.Spec.TotalQPS)
	return int32((total + single - 1) / single)
}

func (o *Memcached) DeepCopyObject() runtime.Object  { return &Memcached{o.clone()} }
func (o *Nginx) DeepCopyObject() runtime.Object      { return &Nginx{o.clone()} }
func (o *HelloWorld) DeepCopyObject() runtime.Object { return &HelloWorld{o.clone()} }
func (o *ElasticWeb) DeepCopyObject() runtime.Object { return &ElasticWeb{o.clone()} }
func (l *MemcachedList) DeepCopyObject() runtime.Object {
	return &MemcachedList{cloneItems(l.list, func(o *Memcached) Memcached { return Memcached{o.clone()} })}
}
func (l *NginxList) DeepCopyObject() runtime.Object {
	return &NginxList{cloneItems(l.list, func(o *Nginx) Nginx { return Nginx{o.clone()} })}
}
func (l *HelloWorldList) DeepCopyObject() runtime.Object {
	return &HelloWorldList{cloneItems(l.list, func(o *HelloWorld) HelloWorld { return HelloWorld{o.clone()} })}
}
func (l *ElasticWebList) DeepCopyObject() runtime.Object {
	return &ElasticWebList{cloneItems(l.list, func(o *ElasticWeb) ElasticWeb { return ElasticWeb{o.clone()} })}
}

func addToScheme(s *runtime.Scheme) {
	for group, objs := range map[schema.GroupVersion][]runtime.Object{
		{Group: "cache.example.com", Version: "v1alpha1"}: {&Memcached{}, &MemcachedList{}},
		{Group: "proxy.example.com", Version: "v1alpha1"}: {&Nginx{}, &NginxList{}},
		{Group: "test.jiaozi.com", Version: "v1alpha1"}:   {&HelloWorld{}, &HelloWorldList{}},
		{Group: "elasticweb.example.com", Version: "v1"}:  {&ElasticWeb{}, &ElasticWebList{}},
	} {
		s.AddKnownTypes(group, objs...)
		metav1.AddToGroupVersion(s, group)
	}
	s.AddKnownTypeWithName(memcachedHub, &MemcachedHub{})
}
