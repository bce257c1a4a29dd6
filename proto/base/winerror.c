/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and texts of the Win32 codes, and the code for an errno. Pure functions, any thread.
 */
#include "winerror.h"

#include <errno.h>
#include <stddef.h>

const char *etw_winerror_name(uint32_t code)
{
    switch (code) {
#define WINERROR(name, value, text)                                                                \
    case value:                                                                                    \
        return #name;
#include "winerror.def"
#undef WINERROR
    default:
        return NULL;
    }
}

const char *etw_winerror_text(uint32_t code)
{
    switch (code) {
#define WINERROR(name, value, text)                                                                \
    case value:                                                                                    \
        return text;
#include "winerror.def"
#undef WINERROR
    default:
        return NULL;
    }
}

uint32_t etw_winerror_from_errno(int r)
{
    switch (r < 0 ? -r : r) {
    case 0:
        return ETW_ERROR_SUCCESS;
    case ENOENT:
        return ETW_ERROR_FILE_NOT_FOUND;
    case ENOTDIR:
        return ETW_ERROR_PATH_NOT_FOUND;
    case EMFILE:
    case ENFILE:
        return ETW_ERROR_TOO_MANY_OPEN_FILES;
    case EACCES:
    case EPERM:
    case EROFS:
        return ETW_ERROR_ACCESS_DENIED;
    case EBADF:
        return ETW_ERROR_INVALID_HANDLE;
    case ENOMEM:
        return ETW_ERROR_NOT_ENOUGH_MEMORY;
    case EBADMSG:
    case ENODATA:
    case EPROTO:
        return ETW_ERROR_INVALID_DATA;
    case EIO:
        return ETW_ERROR_GEN_FAILURE;
    case ETXTBSY:
        return ETW_ERROR_SHARING_VIOLATION;
    case EOPNOTSUPP:
    case ENOSYS:
        return ETW_ERROR_NOT_SUPPORTED;
    case EINVAL:
    case EFAULT:
    case ERANGE:
        return ETW_ERROR_INVALID_PARAMETER;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return ETW_ERROR_DISK_FULL;
    case EMSGSIZE:
        return ETW_ERROR_BAD_LENGTH;
    case ENOBUFS:
        return ETW_ERROR_INSUFFICIENT_BUFFER;
    case ENAMETOOLONG:
    case EISDIR:
    case ELOOP:
    case ENXIO:
        return ETW_ERROR_BAD_PATHNAME;
    case EBUSY:
        return ETW_ERROR_BUSY;
    case EEXIST:
        return ETW_ERROR_ALREADY_EXISTS;
    case EOVERFLOW:
        return ETW_ERROR_ARITHMETIC_OVERFLOW;
    case ESRCH:
        return ETW_ERROR_NOT_FOUND;
    case ECANCELED:
    case EINTR:
        return ETW_ERROR_CANCELLED;
    case EAGAIN:
        return ETW_ERROR_NO_SYSTEM_RESOURCES;
    case ETIMEDOUT:
        return ETW_ERROR_TIMEOUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE:
        return ETW_ERROR_WMI_SERVER_UNAVAILABLE;
    default:
        return ETW_ERROR_GEN_FAILURE;
    }
}
