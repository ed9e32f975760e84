//! The part of QEMU's plugin interface that the simulator uses, looked up by name when the plugin is loaded.
//!
//! The declarations follow QEMU's documentation of the interface, versions 1 to 5 (QEMU 7.2 to 10.2). They are looked up
//! instead of linked so that one plugin serves all of them, so that a QEMU without one of them is told by name, and so
//! that this module can be part of a test program. What differs:
//!
//! * Version 2 (QEMU 9.0) dropped the addition to one word for all threads. What replaces it, a word for each thread,
//!   has QEMU stop all threads when there are more of them than words; a callback does as well.
//! * Version 3 (QEMU 9.1) copies an instruction's bytes where version 1 lent them.
//! * Since QEMU 9.0 a callback has to say that it uses registers; before, nothing was made of that.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ops::Deref;
use std::sync::OnceLock;

use crate::plugin::architecture;

/// The version of the interface that the plugin asks for, found out before QEMU looks: QEMUs since 9.0 refuse the
/// first version, and those before know no other.
#[cfg(percolog_plugin)]
pub(crate) mod version {
    use std::ffi::c_int;
    use std::sync::atomic::{AtomicI32, Ordering};

    /// Read by QEMU.
    #[unsafe(no_mangle)]
    pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(super::FIRST);

    /// Called by the loader of shared libraries, before QEMU asks for anything.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static CHOOSE: extern "C" fn() = choose;

    extern "C" fn choose() {
        const SECOND: c_int = 2;
        if super::is_there(c"qemu_plugin_scoreboard_new") {
            // Relaxed: no other thread runs yet.
            qemu_plugin_version.store(SECOND, Ordering::Relaxed);
        }
    }
}

/// The first version of the interface.
const FIRST: c_int = 1;
/// From this version on an instruction's bytes are copied.
const COPIES_BYTES: c_int = 3;

/// The beginning of what QEMU tells a plugin of itself.
#[repr(C)]
pub(crate) struct Information {
    target: *const c_char,
    /// The oldest version of the interface that it offers, and its own.
    versions: [c_int; 2],
}

/// A block of instructions while it is translated.
#[repr(C)]
pub(crate) struct Block {
    opaque: [u8; 0],
}

/// An instruction while it is translated.
#[repr(C)]
pub(crate) struct Instruction {
    opaque: [u8; 0],
}

/// What QEMU calls this plugin.
pub(crate) type PluginId = u64;
/// Called before an instruction or a block runs.
pub(crate) type Execution = extern "C" fn(vcpu: c_uint, data: *mut c_void);
/// Called after an instruction has accessed memory.
pub(crate) type Memory = extern "C" fn(vcpu: c_uint, info: u32, address: u64, data: *mut c_void);
type Translation = extern "C" fn(PluginId, *mut Block);
type Vcpu = extern "C" fn(PluginId, c_uint);
type AtExit = extern "C" fn(PluginId, *mut c_void);
type SystemCall = extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

/// What a callback does with the guest's registers.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Uses {
    /// It reads them.
    Reads = 1,
    /// It changes them too.
    Changes = 2,
}

/// A memory callback neither reads nor writes registers.
const NO_REGISTERS: c_int = 0;
/// Loads and stores.
const READ_WRITE: c_int = 3;
/// Add an immediate value to a 64-bit word.
const ADD: c_int = 0;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Finds a function in the process.
fn find(name: &CStr) -> *mut c_void {
    // SAFETY: the name is terminated by zero; the null handle searches the whole process.
    unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) }
}

#[cfg(percolog_plugin)]
fn is_there(name: &CStr) -> bool {
    !find(name).is_null()
}

macro_rules! interface {
    ($($(#[$doc:meta])* $field:ident = $name:literal: $type:ty;)*) => {
        /// QEMU's functions.
        pub(crate) struct Interface {
            $($(#[$doc])* $field: $type,)*
            add_on_block: Option<AddOnBlock>,
            program: Option<Program>,
            /// The version of QEMU's interface.
            version: c_int,
        }

        impl Interface {
            /// Finds the functions in the process, or names the first that is missing.
            fn find(version: c_int) -> Result<Interface, &'static str> {
                let add_on_block = find(c"qemu_plugin_register_vcpu_tb_exec_inline");
                let program = find(c"qemu_plugin_path_to_binary");
                Ok(Interface {
                    version,
                    // SAFETY: as below; a null pointer becomes nothing.
                    add_on_block: unsafe {
                        std::mem::transmute::<*mut c_void, Option<AddOnBlock>>(add_on_block)
                    },
                    // SAFETY: likewise.
                    program: unsafe { std::mem::transmute::<*mut c_void, Option<Program>>(program) },
                    $($field: {
                        let name: &CStr = $name;
                        let found = find(name);
                        if found.is_null() {
                            return Err(name.to_str().unwrap_or("a function"));
                        }
                        // SAFETY: QEMU documents the function under this name with this type.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                    },)*
                })
            }
        }
    };
}

type Program = unsafe extern "C" fn() -> *const c_char;
type AddOnBlock = unsafe extern "C" fn(*mut Block, c_int, *mut c_void, u64);

interface! {
    on_translation = c"qemu_plugin_register_vcpu_tb_trans_cb": unsafe extern "C" fn(PluginId, Translation);
    on_vcpu_init = c"qemu_plugin_register_vcpu_init_cb": unsafe extern "C" fn(PluginId, Vcpu);
    on_vcpu_exit = c"qemu_plugin_register_vcpu_exit_cb": unsafe extern "C" fn(PluginId, Vcpu);
    on_exit = c"qemu_plugin_register_atexit_cb": unsafe extern "C" fn(PluginId, AtExit, *mut c_void);
    on_system_call = c"qemu_plugin_register_vcpu_syscall_cb": unsafe extern "C" fn(PluginId, SystemCall);
    on_block = c"qemu_plugin_register_vcpu_tb_exec_cb": unsafe extern "C" fn(*mut Block, Execution, c_int, *mut c_void);
    on_instruction = c"qemu_plugin_register_vcpu_insn_exec_cb": unsafe extern "C" fn(*mut Instruction, Execution, c_int, *mut c_void);
    on_memory = c"qemu_plugin_register_vcpu_mem_cb": unsafe extern "C" fn(*mut Instruction, Memory, c_int, c_int, *mut c_void);
    block_length = c"qemu_plugin_tb_n_insns": unsafe extern "C" fn(*const Block) -> usize;
    block_instruction = c"qemu_plugin_tb_get_insn": unsafe extern "C" fn(*const Block, usize) -> *mut Instruction;
    // In the first two versions it ignores the last two arguments and gives the address of the bytes.
    instruction_data = c"qemu_plugin_insn_data": unsafe extern "C" fn(*const Instruction, *mut u8, usize) -> usize;
    instruction_size = c"qemu_plugin_insn_size": unsafe extern "C" fn(*const Instruction) -> usize;
    instruction_address = c"qemu_plugin_insn_vaddr": unsafe extern "C" fn(*const Instruction) -> u64;
    memory_size_shift = c"qemu_plugin_mem_size_shift": unsafe extern "C" fn(u32) -> c_uint;
    memory_is_store = c"qemu_plugin_mem_is_store": unsafe extern "C" fn(u32) -> bool;
}

static INTERFACE: OnceLock<Interface> = OnceLock::new();

/// Finds QEMU's functions; to be called before anything else of this module.
///
/// # Safety
///
/// The information must be what QEMU gave.
pub(crate) unsafe fn load(information: *const Information) -> Result<(), String> {
    // SAFETY: as the caller promises.
    let [_, version] = unsafe { (*information).versions };
    // SAFETY: QEMU ends the name of its processor with a zero.
    architecture::choose(unsafe { CStr::from_ptr((*information).target) })?;
    let found = Interface::find(version)
        .map_err(|name| format!("this QEMU has no `{name}`: it was built without plugins"))?;
    // A second load finds the same functions.
    let _ = INTERFACE.set(found);
    Ok(())
}

/// Whether QEMU's interface is the first one.
pub(crate) fn is_first_version() -> bool {
    interface().version <= FIRST
}

fn interface() -> &'static Interface {
    INTERFACE
        .get()
        .expect("`load` was called when the plugin was")
}

/// Asks to be called for what happens to the whole program.
pub(crate) fn register(
    id: PluginId,
    translation: Translation,
    vcpu_init: Vcpu,
    vcpu_exit: Vcpu,
    system_call: SystemCall,
    exit: AtExit,
) {
    let qemu = interface();
    // SAFETY: the identifier is the one that QEMU gave; the functions live as long as the process.
    unsafe {
        (qemu.on_translation)(id, translation);
        (qemu.on_vcpu_init)(id, vcpu_init);
        (qemu.on_vcpu_exit)(id, vcpu_exit);
        (qemu.on_system_call)(id, system_call);
        (qemu.on_exit)(id, exit, std::ptr::null_mut());
    }
}

/// Whether a memory callback's access wrote.
pub(crate) fn is_store(info: u32) -> bool {
    // SAFETY: `info` is the value that the callback was given.
    unsafe { (interface().memory_is_store)(info) }
}

/// How many bytes a memory callback's access was of.
pub(crate) fn size(info: u32) -> u64 {
    // SAFETY: `info` is the value that the callback was given.
    let shift = unsafe { (interface().memory_size_shift)(info) };
    1 << shift.min(6)
}

/// The path of the program that QEMU runs, if it says so: not all versions do.
pub(crate) fn program() -> Option<String> {
    // SAFETY: no arguments. The string is the caller's, and is asked for once or twice: it is not freed.
    let path = unsafe { interface().program?() };
    if path.is_null() {
        return None;
    }
    // SAFETY: QEMU ends it with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    Some(path.to_string_lossy().into_owned())
}

impl Block {
    /// How many instructions it has.
    pub(crate) fn length(&self) -> usize {
        // SAFETY: QEMU lends the block for the time of the translation callback.
        unsafe { (interface().block_length)(self) }
    }

    /// One of its instructions.
    pub(crate) fn instruction(&mut self, index: usize) -> &mut Instruction {
        // SAFETY: the index is below `length`; QEMU owns the instruction for as long as the block.
        unsafe { &mut *(interface().block_instruction)(self, index) }
    }

    /// Calls `callback` each time the block is about to run.
    pub(crate) fn before(&mut self, callback: Execution, uses: Uses, data: *mut c_void) {
        // SAFETY: the callback takes this data.
        unsafe { (interface().on_block)(self, callback, uses as c_int, data) }
    }

    /// Adds `amount` to `word` each time the block is about to run, after the callbacks of [`Block::before`]. Returns
    /// whether QEMU offers that.
    ///
    /// # Safety
    ///
    /// The word must live as long as the process.
    pub(crate) unsafe fn add(&mut self, word: *mut u64, amount: u64) -> bool {
        let Some(add_on_block) = interface().add_on_block else {
            return false;
        };
        // SAFETY: as the caller promises.
        unsafe { add_on_block(self, ADD, word.cast(), amount) };
        true
    }
}

/// As long as an instruction may be.
const LONGEST: usize = 16;

/// The bytes of an instruction.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Instruction {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        let qemu = interface();
        let mut found = Bytes {
            bytes: [0; LONGEST],
            length: 0,
        };
        let to = found.bytes.as_mut_ptr();
        // SAFETY: QEMU lends the instruction, and where it does not copy its bytes those too, for the time of the
        // translation callback; it copies no more than it is told.
        unsafe {
            let size = (qemu.instruction_size)(self).min(LONGEST);
            let given = (qemu.instruction_data)(self, to, LONGEST);
            if qemu.version >= COPIES_BYTES {
                found.length = given.min(LONGEST);
            } else {
                std::ptr::copy_nonoverlapping(given as *const u8, to, size);
                found.length = size;
            }
        }
        found
    }

    /// Its address.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: QEMU lends the instruction for the time of the translation callback.
        unsafe { (interface().instruction_address)(self) }
    }

    /// Calls `callback` each time the instruction is about to run.
    pub(crate) fn before(&mut self, callback: Execution, uses: Uses, data: *mut c_void) {
        // SAFETY: the callback takes this data.
        unsafe { (interface().on_instruction)(self, callback, uses as c_int, data) }
    }

    /// Calls `callback` after each access of the instruction to memory.
    pub(crate) fn after_access(&mut self, callback: Memory, data: *mut c_void) {
        // SAFETY: the callback takes this data.
        unsafe { (interface().on_memory)(self, callback, NO_REGISTERS, READ_WRITE, data) }
    }
}
