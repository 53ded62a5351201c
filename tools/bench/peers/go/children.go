package main

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "quartet-operator"
)

func labelsFor(o Operand) map[string]string {
	return map[string]string{labelName: o.kind(), labelInstance: o.GetName(), labelManagedBy: managedBy}
}

// deployment is the desired Deployment, without its owner reference.
func deployment(o Operand) *appsv1.Deployment {
	pod := labelsFor(o)
	for l := o.podLabels(); len(l) > 1; l = l[2:] {
		pod[l[0]] = l[1]
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: labelsFor(o)},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(o.replicas()),
			Selector: &metav1.LabelSelector{MatchLabels: labelsFor(o)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: pod},
				Spec: corev1.PodSpec{
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot:   ptr.To(true),
						SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{{
						Name: o.kind(), Image: o.image(), ImagePullPolicy: corev1.PullIfNotPresent,
						Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: o.containerPort(), Protocol: corev1.ProtocolTCP}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}},
						SecurityContext: &corev1.SecurityContext{
							AllowPrivilegeEscalation: ptr.To(false),
							Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
						},
					}},
				},
			},
		},
	}
}

// service is the desired NodePort Service, without its owner reference.
func service(o Operand) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), Namespace: o.GetNamespace(), Labels: labelsFor(o)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: labelsFor(o),
			Ports: []corev1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP,
				TargetPort: intstr.FromString("http"), NodePort: o.nodePort()}},
		},
	}
}

// sameDeployment: the cached object holds every field we own, with our value, and is ours.
func sameDeployment(o Operand, want, got *appsv1.Deployment) bool {
	return metav1.IsControlledBy(got, o) &&
		*want.Spec.Replicas == ptr.Deref(got.Spec.Replicas, 1) && // 0 is "unset" to DeepDerivative
		equality.Semantic.DeepDerivative(want.Labels, got.Labels) &&
		equality.Semantic.DeepDerivative(want.Spec.Template, got.Spec.Template)
}

func sameService(o Operand, want, got *corev1.Service) bool {
	return metav1.IsControlledBy(got, o) &&
		equality.Semantic.DeepDerivative(want.Labels, got.Labels) && equality.Semantic.DeepDerivative(want.Spec, got.Spec)
}

func ownerRef(o Operand) *metaac.OwnerReferenceApplyConfiguration {
	gvk := o.GetObjectKind().GroupVersionKind()
	return metaac.OwnerReference().WithAPIVersion(gvk.GroupVersion().String()).WithKind(gvk.Kind).
		WithName(o.GetName()).WithUID(o.GetUID()).WithController(true).WithBlockOwnerDeletion(true)
}

func applyDeployment(o Operand, d *appsv1.Deployment) *appsac.DeploymentApplyConfiguration {
	c := d.Spec.Template.Spec.Containers[0]
	return appsac.Deployment(d.Name, d.Namespace).WithLabels(d.Labels).WithOwnerReferences(ownerRef(o)).
		WithSpec(appsac.DeploymentSpec().WithReplicas(*d.Spec.Replicas).
			WithSelector(metaac.LabelSelector().WithMatchLabels(d.Spec.Selector.MatchLabels)).
			WithTemplate(coreac.PodTemplateSpec().WithLabels(d.Spec.Template.Labels).
				WithSpec(coreac.PodSpec().
					WithSecurityContext(coreac.PodSecurityContext().WithRunAsNonRoot(true).
						WithSeccompProfile(coreac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
					WithContainers(coreac.Container().WithName(c.Name).WithImage(c.Image).WithImagePullPolicy(c.ImagePullPolicy).
						WithPorts(coreac.ContainerPort().WithName(c.Ports[0].Name).WithContainerPort(c.Ports[0].ContainerPort).WithProtocol(c.Ports[0].Protocol)).
						WithResources(coreac.ResourceRequirements().WithRequests(c.Resources.Requests)).
						WithSecurityContext(coreac.SecurityContext().WithAllowPrivilegeEscalation(false).
							WithCapabilities(coreac.Capabilities().WithDrop("ALL")))))))
}

func applyService(o Operand, s *corev1.Service) *coreac.ServiceApplyConfiguration {
	p := s.Spec.Ports[0]
	return coreac.Service(s.Name, s.Namespace).WithLabels(s.Labels).WithOwnerReferences(ownerRef(o)).
		WithSpec(coreac.ServiceSpec().WithType(s.Spec.Type).WithSelector(s.Spec.Selector).
			WithPorts(coreac.ServicePort().WithName(p.Name).WithPort(p.Port).WithProtocol(p.Protocol).
				WithTargetPort(p.TargetPort).WithNodePort(p.NodePort)))
}

// setConditions derives Ready and Progressing from the Deployment (nil: not there yet).
func setConditions(o Operand, d *appsv1.Deployment) {
	s, want, ready := o.status(), o.replicas(), int32(0)
	done := false
	if d != nil {
		ready = d.Status.ReadyReplicas
		done = d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == want &&
			d.Status.Replicas == want && ready == want
	}
	s.ObservedGeneration = o.GetGeneration()
	o.realQPS(ready)
	set := func(t string, ok bool, yes, no string) {
		c := metav1.Condition{Type: t, Status: metav1.ConditionFalse, Reason: no, ObservedGeneration: o.GetGeneration()}
		if ok {
			c.Status, c.Reason = metav1.ConditionTrue, yes
		}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set("Ready", done, "RolloutComplete", "RollingOut")
	set("Progressing", !done, "RollingOut", "RolloutComplete")
}
