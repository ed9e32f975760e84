//! The part of QEMU's plugin interface that the simulator uses, looked up by name when the plugin is loaded.
//!
//! The declarations follow QEMU's documentation of the interface, version 1. They are looked up instead of linked so
//! that a QEMU without one of them is told by name, and so that this module can be part of a test program.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// The version of the interface that the declarations follow.
pub(crate) const VERSION: c_int = 1;

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

/// The callback neither reads nor writes registers through the interface.
const NO_REGISTERS: c_int = 0;
/// Loads and stores.
const READ_WRITE: c_int = 3;
/// Add an immediate value to a 64-bit word.
const ADD: c_int = 0;

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

macro_rules! interface {
    ($($(#[$doc:meta])* $field:ident = $name:literal: $type:ty;)*) => {
        /// QEMU's functions.
        pub(crate) struct Interface {
            $($(#[$doc])* $field: $type,)*
        }

        impl Interface {
            /// Finds the functions in the process, or names the first that is missing.
            fn find() -> Result<Interface, &'static str> {
                Ok(Interface {
                    $($field: {
                        let name: &CStr = $name;
                        // SAFETY: the name is terminated by zero; the null handle searches the whole process.
                        let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
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

interface! {
    on_translation = c"qemu_plugin_register_vcpu_tb_trans_cb": unsafe extern "C" fn(PluginId, Translation);
    on_vcpu_init = c"qemu_plugin_register_vcpu_init_cb": unsafe extern "C" fn(PluginId, Vcpu);
    on_vcpu_exit = c"qemu_plugin_register_vcpu_exit_cb": unsafe extern "C" fn(PluginId, Vcpu);
    on_exit = c"qemu_plugin_register_atexit_cb": unsafe extern "C" fn(PluginId, AtExit, *mut c_void);
    on_system_call = c"qemu_plugin_register_vcpu_syscall_cb": unsafe extern "C" fn(PluginId, SystemCall);
    on_block = c"qemu_plugin_register_vcpu_tb_exec_cb": unsafe extern "C" fn(*mut Block, Execution, c_int, *mut c_void);
    add_on_block = c"qemu_plugin_register_vcpu_tb_exec_inline": unsafe extern "C" fn(*mut Block, c_int, *mut c_void, u64);
    on_instruction = c"qemu_plugin_register_vcpu_insn_exec_cb": unsafe extern "C" fn(*mut Instruction, Execution, c_int, *mut c_void);
    on_memory = c"qemu_plugin_register_vcpu_mem_cb": unsafe extern "C" fn(*mut Instruction, Memory, c_int, c_int, *mut c_void);
    block_length = c"qemu_plugin_tb_n_insns": unsafe extern "C" fn(*const Block) -> usize;
    block_instruction = c"qemu_plugin_tb_get_insn": unsafe extern "C" fn(*const Block, usize) -> *mut Instruction;
    instruction_data = c"qemu_plugin_insn_data": unsafe extern "C" fn(*const Instruction) -> *const c_void;
    instruction_size = c"qemu_plugin_insn_size": unsafe extern "C" fn(*const Instruction) -> usize;
    instruction_address = c"qemu_plugin_insn_vaddr": unsafe extern "C" fn(*const Instruction) -> u64;
    program = c"qemu_plugin_path_to_binary": unsafe extern "C" fn() -> *const c_char;
    memory_is_store = c"qemu_plugin_mem_is_store": unsafe extern "C" fn(u32) -> bool;
}

static INTERFACE: OnceLock<Interface> = OnceLock::new();

/// Finds QEMU's functions; to be called before anything else of this module.
pub(crate) fn load() -> Result<(), String> {
    let found = Interface::find()
        .map_err(|name| format!("this QEMU has no `{name}`: it was built without plugins"))?;
    // A second load finds the same functions.
    let _ = INTERFACE.set(found);
    Ok(())
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

/// The path of the program that QEMU runs.
pub(crate) fn program() -> String {
    // SAFETY: no arguments. The string is the caller's, and is asked for once or twice: it is not freed.
    let path = unsafe { (interface().program)() };
    if path.is_null() {
        return String::new();
    }
    // SAFETY: QEMU ends it with a zero.
    unsafe { CStr::from_ptr(path) }
        .to_string_lossy()
        .into_owned()
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
    pub(crate) fn before(&mut self, callback: Execution, data: *mut c_void) {
        // SAFETY: the callback takes this data.
        unsafe { (interface().on_block)(self, callback, NO_REGISTERS, data) }
    }

    /// Adds `amount` to `word` each time the block is about to run, after the callbacks of [`Block::before`].
    ///
    /// # Safety
    ///
    /// The word must live as long as the process.
    pub(crate) unsafe fn add(&mut self, word: *mut u64, amount: u64) {
        // SAFETY: as the caller promises.
        unsafe { (interface().add_on_block)(self, ADD, word.cast(), amount) }
    }
}

impl Instruction {
    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        let qemu = interface();
        // SAFETY: QEMU keeps the bytes for the time of the translation callback.
        unsafe {
            let size = (qemu.instruction_size)(self);
            std::slice::from_raw_parts((qemu.instruction_data)(self).cast(), size)
        }
    }

    /// Its address.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: QEMU lends the instruction for the time of the translation callback.
        unsafe { (interface().instruction_address)(self) }
    }

    /// Calls `callback` each time the instruction is about to run.
    pub(crate) fn before(&mut self, callback: Execution, data: *mut c_void) {
        // SAFETY: the callback takes this data.
        unsafe { (interface().on_instruction)(self, callback, NO_REGISTERS, data) }
    }

    /// Calls `callback` after each access of the instruction to memory.
    pub(crate) fn after_access(&mut self, callback: Memory, data: *mut c_void) {
        // SAFETY: the callback takes this data.
        unsafe { (interface().on_memory)(self, callback, NO_REGISTERS, READ_WRITE, data) }
    }
}
