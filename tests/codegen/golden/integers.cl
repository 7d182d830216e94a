__kernel __attribute__((reqd_work_group_size(128, 1, 1))) void step_0(__global int* restrict in0_ptr, __global int* restrict in1_ptr, __global int* restrict out_ptr) {
  const int group_x = (int)get_group_id(0);
  const int local_x = (int)get_local_id(0);
  int t_ptr[1];
  int t_ptr_1[1];
  int t_ptr_2[1];
  if (((group_x * 64) + (local_x >> 1)) < 75) {
    t_ptr[0] = in1_ptr[((group_x * 128) + local_x)];
    t_ptr_1[0] = in0_ptr[((group_x * 128) + local_x)];
    int condval;
    if ((t_ptr_1[0] & -32) == 0) {
      condval = (t_ptr[0] << t_ptr_1[0]);
    } else {
      condval = 0;
    }
    t_ptr_2[0] = condval;
    t_ptr[0] = (t_ptr[0] ^ t_ptr_1[0]);
    out_ptr[((group_x * 128) + local_x)] = ((t_ptr_2[0] / ((((convert_int((t_ptr[0] == -1))) * 2) + t_ptr[0]) + (convert_int((t_ptr[0] == 0))))) * ((1 - (convert_int((t_ptr[0] == 0)))) - ((convert_int((t_ptr[0] == -1))) * 2)));
  }
}
