//! A context of UCP: the transports that may be used, and what they are told.

use core::ffi::CStr;
use core::ptr;
use std::ffi::CString;
use std::rc::Rc;

use probeline_ucx_sys::{
    UCP_ATTR_FIELD_REQUEST_SIZE, UCP_FEATURE_AMO64, UCP_FEATURE_RMA, UCP_FEATURE_WAKEUP,
    UCP_PARAM_FIELD_ESTIMATED_NUM_EPS, UCP_PARAM_FIELD_FEATURES, UCP_PARAM_FIELD_MT_WORKERS_SHARED,
    Ucp, ucp_config_t, ucp_context_attr_t, ucp_context_h, ucp_init, ucp_params_t,
};

use super::settings::Settings;
use super::{CallFailed, OpenError, Progress};

/// An open context, shared by what is made in it: it is closed after the last of them.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) ucp: Ucp,
    pub(super) handle: ucp_context_h,
    /// Bytes that a request takes in front of what it is named by.
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
        // only fields named in the mask are looked at.
        let mut params: ucp_params_t = unsafe { core::mem::zeroed() };
        params.field_mask = (UCP_PARAM_FIELD_FEATURES
            | UCP_PARAM_FIELD_MT_WORKERS_SHARED
            | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS)
            .into();
        params.features = (UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | wakeup).into();
        params.mt_workers_shared = threads.into();
        params.estimated_num_eps = owners as usize;
        let mut handle = ptr::null_mut();
        // SAFETY: live pointers; the fields of the mask are set.
        let status = unsafe { ucp_init(&ucp, &raw const params, config.handle, &raw mut handle) };
        CallFailed::check(&ucp, "ucp_init", status)?;
        let mut context = Self { ucp, handle, request_bytes: 0 };
        context.request_bytes = context.query_request_bytes()?;
        Ok(Rc::new(context))
    }

    fn query_request_bytes(&self) -> Result<usize, CallFailed> {
        // SAFETY: a struct of integers and characters, for which zero is valid.
        let mut attributes: ucp_context_attr_t = unsafe { core::mem::zeroed() };
        attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE.into();
        // SAFETY: an open context, and a live struct whose mask is set.
        let status = unsafe { (self.ucp.ucp_context_query)(self.handle, &raw mut attributes) };
        CallFailed::check(&self.ucp, "ucp_context_query", status)?;
        Ok(attributes.request_size)
    }

    /// The library's version.
    pub(super) fn version(&self) -> String {
        version(&self.ucp)
    }
}

fn version(ucp: &Ucp) -> String {
    // SAFETY: takes nothing and gives a static string.
    let version = unsafe { CStr::from_ptr((ucp.ucp_get_version_string)()) };
    version.to_string_lossy().into_owned()
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened above and closed once; workers and mappings hold the context by `Rc`, so
        // that none is left.
        unsafe { (self.ucp.ucp_cleanup)(self.handle) };
    }
}

/// The environment's configuration, with the settings in it.
struct Config {
    ucp: Ucp,
    handle: *mut ucp_config_t,
}

impl Config {
    fn read(ucp: Ucp, settings: &Settings) -> Result<Self, OpenError> {
        settings.agree_with_environment()?;
        let mut handle = ptr::null_mut();
        // SAFETY: null for no prefix and no file, and a live pointer for the result.
        let status = unsafe { (ucp.ucp_config_read)(ptr::null(), ptr::null(), &raw mut handle) };
        CallFailed::check(&ucp, "ucp_config_read", status)?;
        let config = Self { ucp, handle };
        let version = version(&ucp);
        settings.iter().try_for_each(|(name, value)| config.modify(&version, name, value))?;
        Ok(config)
    }

    fn modify(&self, version: &str, name: &'static str, value: &str) -> Result<(), OpenError> {
        let refused = || OpenError::Setting { variable: name, value: value.to_owned() };
        let in_c = |text: &str| CString::new(text).map_err(|_| refused());
        let (name, text) = (in_c(known_as(version, name))?, in_c(value)?);
        // SAFETY: a live configuration and two strings that end in NUL, which are copied.
        let status =
            unsafe { (self.ucp.ucp_config_modify)(self.handle, name.as_ptr(), text.as_ptr()) };
        if status == probeline_ucx_sys::UCS_OK { Ok(()) } else { Err(refused()) }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: read above and released once; a context copies what it needs.
        unsafe { (self.ucp.ucp_config_release)(self.handle) };
    }
}

/// What `ucp_config_modify` calls a variable. Before 1.17 it knows those of InfiniBand by what stands
/// behind the prefix alone, and takes the whole name for one that nobody heeds.
fn known_as<'a>(version: &str, name: &'a str) -> &'a str {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match name.strip_prefix("IB_") {
        Some(rest) if release < (1, 17) => rest,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_release() {
        assert_eq!(known_as("1.13.1", "IB_GID_INDEX"), "GID_INDEX");
        assert_eq!(known_as("1.16.0-rc1", "IB_GID_INDEX"), "GID_INDEX");
        assert_eq!(known_as("1.17.0", "IB_GID_INDEX"), "IB_GID_INDEX");
        assert_eq!(known_as("2.0", "IB_GID_INDEX"), "IB_GID_INDEX");
        assert_eq!(known_as("1.13.1", "TLS"), "TLS");
    }
}
