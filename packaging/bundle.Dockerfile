# The image of the bundle: its files, and labels with its metadata.
FROM scratch

LABEL operators.operatorframework.io.bundle.mediatype.v1=registry+v1
LABEL operators.operatorframework.io.bundle.manifests.v1=manifests/
LABEL operators.operatorframework.io.bundle.metadata.v1=metadata/
LABEL operators.operatorframework.io.bundle.package.v1=quartet-operator
LABEL operators.operatorframework.io.bundle.channels.v1=$CHANNEL_LIST$
LABEL operators.operatorframework.io.bundle.channel.default.v1=$DEFAULT_CHANNEL$
LABEL operators.operatorframework.io.test.mediatype.v1=scorecard+v1
LABEL operators.operatorframework.io.test.config.v1=tests/scorecard/
LABEL com.redhat.openshift.versions=$OLDEST_OPENSHIFT$

COPY $FOLDER$/manifests /manifests/
COPY $FOLDER$/metadata /metadata/
COPY $FOLDER$/tests/scorecard /tests/scorecard/
