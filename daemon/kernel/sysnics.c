/* SPDX-License-Identifier: Apache-2.0
 *
 * SystemConfig NIC records: one for each network interface but the loopback, with the addresses it
 * has, from rtnetlink. Nothing of the name service is asked. Worker thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "kernel/sysconfig_internal.h"

/* Characters of an interface's address list: far beyond what one has, and every record fits any
 * session's buffer with it. */
#define ADDRESSES_MAX 1024

struct nic {
    uint32_t index;
    uint32_t address_size;
    uint8_t address[8];
    bool has_ipv4;
    bool has_ipv6;
    char name[IF_NAMESIZE];
    char addresses[ADDRESSES_MAX];
};

struct nics {
    struct nic *items;
    size_t n;
};

static int add_link(struct nics *nics, const struct nlmsghdr *nh)
{
    const struct ifinfomsg *ifi = NLMSG_DATA(nh);
    struct nic nic = {0}, *items;
    int left;

    if (nh->nlmsg_len < NLMSG_LENGTH(sizeof(*ifi)))
        return -EBADMSG;
    if (ifi->ifi_type == ARPHRD_LOOPBACK || ifi->ifi_index <= 0 ||
        nics->n >= ETW_SYSCONFIG_ITEMS_MAX)
        return 0;
    nic.index = (uint32_t) ifi->ifi_index;
    left = (int) IFLA_PAYLOAD(nh);
    for (struct rtattr *a = IFLA_RTA(ifi); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        size_t size = RTA_PAYLOAD(a);

        if (a->rta_type == IFLA_IFNAME)
            memcpy(nic.name, RTA_DATA(a), size < sizeof(nic.name) ? size : sizeof(nic.name) - 1);
        else if (a->rta_type == IFLA_ADDRESS) {
            nic.address_size = (uint32_t) size;
            memcpy(nic.address, RTA_DATA(a),
                   size < sizeof(nic.address) ? size : sizeof(nic.address));
        }
    }
    items = realloc(nics->items, (nics->n + 1) * sizeof(*items));
    if (!items)
        return -ENOMEM;
    nics->items = items;
    items[nics->n++] = nic;
    return 0;
}

static int add_address(struct nics *nics, const struct nlmsghdr *nh)
{
    const struct ifaddrmsg *ifa = NLMSG_DATA(nh);
    const void *address = NULL;
    char text[INET6_ADDRSTRLEN];
    struct nic *nic = NULL;
    size_t used, need;
    int left;

    if (nh->nlmsg_len < NLMSG_LENGTH(sizeof(*ifa)))
        return -EBADMSG;
    if (ifa->ifa_family != AF_INET && ifa->ifa_family != AF_INET6)
        return 0;
    for (size_t i = 0; i < nics->n && !nic; i++)
        if (nics->items[i].index == ifa->ifa_index)
            nic = &nics->items[i];
    if (!nic)
        return 0;
    left = (int) IFA_PAYLOAD(nh);
    for (struct rtattr *a = IFA_RTA(ifa); RTA_OK(a, left); a = RTA_NEXT(a, left)) {
        size_t size = ifa->ifa_family == AF_INET ? 4 : 16;

        /* IFA_LOCAL is our end of a point-to-point link, where IFA_ADDRESS is the other's. */
        if (RTA_PAYLOAD(a) == size &&
            (a->rta_type == IFA_LOCAL || (a->rta_type == IFA_ADDRESS && !address)))
            address = RTA_DATA(a);
    }
    if (!address || !inet_ntop(ifa->ifa_family, address, text, sizeof(text)))
        return 0;
    if (ifa->ifa_family == AF_INET)
        nic->has_ipv4 = true;
    else
        nic->has_ipv6 = true;

    used = strlen(nic->addresses);
    need = strlen(text) + (used > 0);
    if (used + need < sizeof(nic->addresses))
        (void) snprintf(nic->addresses + used, sizeof(nic->addresses) - used, "%s%s",
                        used > 0 ? "," : "", text);
    return 0;
}

/* One dump: `type` RTM_GETLINK or RTM_GETADDR. */
static int dump(int sock, uint16_t type, uint32_t sequence, struct nics *nics)
{
    /* Kernels send up to 32 KiB at a time when asked with such a buffer. */
    static const size_t buffer_size = 65536;
    struct {
        struct nlmsghdr nh;
        struct rtgenmsg gen;
    } req = {
        .nh = {.nlmsg_len = sizeof(req),
               .nlmsg_type = type,
               .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
               .nlmsg_seq = sequence},
        .gen = {.rtgen_family = AF_UNSPEC},
    };
    _cleanup_free_ struct nlmsghdr *buffer = NULL;

    buffer = malloc(buffer_size);
    if (!buffer)
        return -ENOMEM;
    if (send(sock, &req, sizeof(req), 0) < 0)
        return -errno;
    for (;;) {
        ssize_t n = recv(sock, buffer, buffer_size, MSG_TRUNC);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0 || (size_t) n > buffer_size)
            return -EBADMSG;
        for (struct nlmsghdr *nh = buffer; NLMSG_OK(nh, n); nh = NLMSG_NEXT(nh, n)) {
            int r = 0;

            if (nh->nlmsg_seq != sequence)
                continue;
            if (nh->nlmsg_type == NLMSG_DONE)
                return 0;
            if (nh->nlmsg_type == NLMSG_ERROR)
                return -EIO;
            if (nh->nlmsg_type == RTM_NEWLINK)
                r = add_link(nics, nh);
            else if (nh->nlmsg_type == RTM_NEWADDR)
                r = add_address(nics, nh);
            if (r < 0)
                return r;
        }
    }
}

/* "eth0 (virtio_net)"; without a driver the name alone. */
static void describe(const struct sysconfig_roots *roots, const struct nic *nic, char *buf,
                     size_t size)
{
    char path[64], link[256];
    const char *driver;
    ssize_t n;

    (void) snprintf(path, sizeof(path), "class/net/%s/device/driver", nic->name);
    n = readlinkat(roots->sys, path, link, sizeof(link) - 1);
    link[n > 0 ? n : 0] = '\0';
    driver = strrchr(link, '/');
    if (driver)
        (void) snprintf(buf, size, "%s (%s)", nic->name, driver + 1);
    else
        (void) snprintf(buf, size, "%s", nic->name);
}

static int add_nic(struct sysconfig *c, const struct sysconfig_roots *roots, const struct nic *nic)
{
    struct etl_SystemConfig_NIC rec = {0};
    char description[IF_NAMESIZE + 264];
    struct etl_writer w;
    uint64_t address = 0;
    int r;

    /* The bytes of the address in their order, so that the first one is the lowest. */
    memcpy(&address, nic->address, sizeof(address));
    rec.PhysicalAddr = address;
    rec.PhysicalAddrLen = nic->address_size;
    rec.Ipv4Index = nic->has_ipv4 ? nic->index : 0;
    rec.Ipv6Index = nic->has_ipv6 ? nic->index : 0;
    describe(roots, nic, description, sizeof(description));

    r = sysconfig_begin(&w, ETL_ROW_SystemConfig_NIC);
    if (r < 0)
        return r;
    etl_put(&w, &rec, sizeof(rec));
    etl_put_wsz(&w, description, SIZE_MAX, sizeof(description));
    etl_put_wsz(&w, nic->addresses, SIZE_MAX, ADDRESSES_MAX);
    etl_put_wsz(&w, "", SIZE_MAX, 1); /* name servers: Linux has them for the machine only */
    return sysconfig_end(c, &w, ETL_ROW_SystemConfig_NIC);
}

static int read_nics(struct nics *nics)
{
    _cleanup_close_ int sock = -1;
    struct timeval patience = {.tv_sec = 1};
    int r;

    sock = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (sock < 0)
        return -errno;
    if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
        return -errno;
    r = dump(sock, RTM_GETLINK, 1, nics);
    if (r < 0)
        return r;
    return dump(sock, RTM_GETADDR, 2, nics);
}

int sysconfig_add_nics(struct sysconfig *c, const struct sysconfig_roots *roots)
{
    struct nics nics = {0};
    int r;

    r = read_nics(&nics);
    /* No netlink here (a sandbox): no interfaces are described; the rest of the machine is. */
    if (r < 0 && r != -ENOMEM)
        r = 0;
    for (size_t i = 0; i < nics.n && r == 0; i++)
        r = add_nic(c, roots, &nics.items[i]);
    free(nics.items);
    return r;
}
