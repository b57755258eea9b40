//! A context of UCP, and the settings that it is opened with.

use core::ffi::CStr;
use core::ptr;
use std::env;
use std::ffi::CString;
use std::rc::Rc;

use probeline_ucx_sys::{
    UCP_ATTR_FIELD_REQUEST_SIZE, UCP_FEATURE_AMO64, UCP_FEATURE_RMA, UCP_FEATURE_WAKEUP,
    UCP_PARAM_FIELD_ESTIMATED_NUM_EPS, UCP_PARAM_FIELD_FEATURES, UCP_PARAM_FIELD_MT_WORKERS_SHARED,
    UCS_OK, Ucp, ucp_config_t, ucp_context_attr_t, ucp_context_h, ucp_init, ucp_params_t,
};

use super::error::check;
use super::{OpenError, Progress};

/// An open context. Its workers and mappings share it; it is closed after the last of them.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) ucp: Ucp,
    pub(super) handle: ucp_context_h,
    /// The bytes of a request, which end at the pointer to the request.
    pub(super) request_bytes: usize,
}

impl Context {
    pub(super) fn open(
        ucp: Ucp,
        settings: &Settings,
        progress: Progress,
        owners: u32,
    ) -> Result<Rc<Self>, OpenError> {
        let config = Config::read(ucp, settings)?;
        let threads = progress == Progress::Thread;
        let wakeup = if threads { UCP_FEATURE_WAKEUP } else { 0 };
        // SAFETY: a struct of integers, pointers and optional functions, for which zero is valid;
        // UCP reads only the fields in the mask.
        let mut params: ucp_params_t = unsafe { core::mem::zeroed() };
        params.field_mask = (UCP_PARAM_FIELD_FEATURES
            | UCP_PARAM_FIELD_MT_WORKERS_SHARED
            | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS)
            .into();
        params.features = (UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | wakeup).into();
        params.mt_workers_shared = threads.into();
        params.estimated_num_eps = owners as usize;
        let mut handle = ptr::null_mut();
        // SAFETY: live pointers; the fields in the mask are set.
        let status = unsafe { ucp_init(&ucp, &raw const params, config.handle, &raw mut handle) };
        check(&ucp, "ucp_init", status)?;
        let mut context = Self { ucp, handle, request_bytes: 0 };
        context.request_bytes = context.query_request_bytes()?;
        Ok(Rc::new(context))
    }

    fn query_request_bytes(&self) -> Result<usize, OpenError> {
        // SAFETY: a struct of integers and characters, for which zero is valid.
        let mut attributes: ucp_context_attr_t = unsafe { core::mem::zeroed() };
        attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE.into();
        // SAFETY: an open context, and a live struct whose mask is set.
        let status = unsafe { (self.ucp.ucp_context_query)(self.handle, &raw mut attributes) };
        check(&self.ucp, "ucp_context_query", status)?;
        Ok(attributes.request_size)
    }
}

/// Returns the version of the library.
pub(super) fn version(ucp: &Ucp) -> String {
    // SAFETY: takes no arguments and returns a static string.
    let version = unsafe { CStr::from_ptr((ucp.ucp_get_version_string)()) };
    version.to_string_lossy().into_owned()
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened above and closed once. Workers and mappings hold the context by `Rc`, so
        // that none exists any more.
        unsafe { (self.ucp.ucp_cleanup)(self.handle) };
    }
}

/// The configuration of the environment, changed by the settings.
struct Config {
    ucp: Ucp,
    handle: *mut ucp_config_t,
}

impl Config {
    fn read(ucp: Ucp, settings: &Settings) -> Result<Self, OpenError> {
        check_environment(settings, |variable| env::var(variable).ok())?;
        let mut handle = ptr::null_mut();
        // SAFETY: null for no prefix and no file, and a live pointer for the result.
        let status = unsafe { (ucp.ucp_config_read)(ptr::null(), ptr::null(), &raw mut handle) };
        check(&ucp, "ucp_config_read", status)?;
        let config = Self { ucp, handle };
        settings.iter().try_for_each(|(name, value)| config.modify(name, value))?;
        Ok(config)
    }

    fn modify(&self, name: &'static str, value: &str) -> Result<(), OpenError> {
        let refused = || OpenError::Setting { variable: name, value: value.to_owned() };
        let in_c = |text: &str| CString::new(text).map_err(|_| refused());
        let (name, text) = (in_c(name_in_release(&version(&self.ucp), name))?, in_c(value)?);
        // SAFETY: a live configuration and two C strings, which are copied.
        let status =
            unsafe { (self.ucp.ucp_config_modify)(self.handle, name.as_ptr(), text.as_ptr()) };
        if status == UCS_OK { Ok(()) } else { Err(refused()) }
    }
}

/// Returns the name of a variable in `ucp_config_modify`. Before 1.17 it knows the variables of
/// InfiniBand without their prefix only, and ignores their full names.
fn name_in_release<'a>(version: &str, name: &'a str) -> &'a str {
    let release: Vec<u32> = version.split('.').map_while(|number| number.parse().ok()).collect();
    match name.strip_prefix("IB_") {
        Some(rest) if release[..] < [1, 17][..] => rest,
        _ => name,
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: read above and released once; a context copies what it needs.
        unsafe { (self.ucp.ucp_config_release)(self.handle) };
    }
}

/// Variables of UCX, named without `UCX_`, and their values.
pub(super) type Settings = Vec<(&'static str, String)>;

/// Fails if a variable of the environment has another value than in `settings`.
fn check_environment(
    settings: &Settings,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<(), OpenError> {
    for (name, asked) in settings {
        let variable = format!("UCX_{name}");
        if let Some(set) = environment(&variable).filter(|set| set.trim() != asked) {
            return Err(OpenError::Contradiction { variable, set, asked: asked.clone() });
        }
    }
    Ok(())
}

/// Returns UCX's variables in the environment, as `NAME=VALUE`, sorted.
pub(super) fn environment() -> Vec<String> {
    let variables = env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?;
        name.starts_with("UCX_").then(|| format!("{name}={}", value.to_string_lossy()))
    });
    let mut variables: Vec<String> = variables.collect();
    variables.sort_unstable();
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_variables_by_release() {
        for (version, name) in [
            ("1.13.1", "GID_INDEX"),
            ("1.16.0-rc1", "GID_INDEX"),
            ("1.17.0", "IB_GID_INDEX"),
            ("2.0", "IB_GID_INDEX"),
        ] {
            assert_eq!(name_in_release(version, "IB_GID_INDEX"), name);
            assert_eq!(name_in_release(version, "TLS"), "TLS");
        }
    }

    #[test]
    fn refuses_contradicting_environment() {
        let settings = vec![("TLS", "tcp".to_owned()), ("ATOMIC_MODE", "cpu".to_owned())];
        let check = |environment| check_environment(&settings, environment);
        let tls = |value: &'static str| {
            move |variable: &str| (variable == "UCX_TLS").then(|| value.to_owned())
        };
        assert!(check(tls("tcp")).is_ok());
        let contradiction = check(tls("rc"));
        let Err(OpenError::Contradiction { variable, set, asked }) = contradiction else {
            panic!("{contradiction:?}");
        };
        assert_eq!([variable, set, asked], ["UCX_TLS", "rc", "tcp"]);
    }
}
