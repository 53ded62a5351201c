//! What the process is told once and every reconciler needs: the operand images and the
//! replica limit. Built from flags and environment elsewhere; no I/O here.

/// Default of `MEMCACHED_IMAGE`. Its user is 11211, given as a name.
pub const MEMCACHED_IMAGE: &str = "docker.io/library/memcached:1.6.39-alpine";

/// Default of `NGINX_IMAGE`. Listens on 8080 as user 101.
pub const NGINX_IMAGE: &str = "docker.io/nginxinc/nginx-unprivileged:1.28-alpine";

/// Default of `HELLOWORLD_IMAGE`: that of nginx, whose welcome page is the greeting.
pub const HELLO_WORLD_IMAGE: &str = NGINX_IMAGE;

/// Default of `--max-replicas`.
pub const MAX_REPLICAS: u32 = 1000;

/// The part of the configuration that children depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// No resource gets more pods than this; 0 lifts the limit.
    pub max_replicas: u32,
    /// Image of a Memcached that names none.
    pub memcached_image: String,
    /// Image of an Nginx that names none.
    pub nginx_image: String,
    /// Image of a HelloWorld that names none.
    pub hello_world_image: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            max_replicas: MAX_REPLICAS,
            memcached_image: MEMCACHED_IMAGE.to_owned(),
            nginx_image: NGINX_IMAGE.to_owned(),
            hello_world_image: HELLO_WORLD_IMAGE.to_owned(),
        }
    }
}
